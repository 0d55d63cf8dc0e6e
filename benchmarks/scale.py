"""`python -m benchmarks.scale`: what fifty routes cost against one, and whether a long run keeps up.  Part of `make bench`.

Both look at Spark: all routes without a transform share one query, and a lag that grows shows as messages on their way.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import fillings, machine, page
from benchmarks.figures import NAMES, Bound, median
from benchmarks.measure import Bench, Job, Load, Result

BEGIN = "<!-- scale: written by `make bench`, do not edit between the markers -->"
END = "<!-- end of scale -->"
ROUTES = 50
RATES = (5_000, 20_000, 100_000)   # messages/s of all routes together
COST = 1.5                         # × the CPU time of one route, at most
SUSTAINED = 150_000                # messages/s, demanded
OFFERED = 153_000                  # messages/s sent: the way of the last ones counts, too
SECONDS = 60.0
CONNECTIONS = 4                    # of the long run
GROWN = 1.5                        # × the messages on their way in the first third: in the last one no more than this


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of one measurement of routes (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="one route and fifty in turn, so often; medians (%(default)s)")
    parser.add_argument("--sustained", type=float, default=SECONDS, help="seconds of the long run (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where benchmarks.md and benchmarks/ go (%(default)s)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-scale-"))
    load = Load(seconds=options.seconds, topics=ROUTES)
    found: list[Result] = []
    for _ in range(options.repeat):   # in turn: a slow minute of the machine does not hit one of the two alone
        for system in ("spark", f"spark-{ROUTES}"):
            found += page.shown(Bench(folder, load).rows(system, [Job(1, rate, 1) for rate in RATES]))
    long = replace(load, seconds=options.sustained, topics=12)
    found += page.shown(Bench(folder, long).rows("spark", [Job(1, OFFERED, CONNECTIONS)]))
    if not any(result.error for result in found):
        shutil.rmtree(folder)
    write(options.out, found)
    return 1 if any(result.error for result in found) else 0


def write(out: Path, found: list[Result]) -> None:
    about = machine.describe("benchmarks.scale")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    folder = out / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    told = {"when": when, "machine": about, "bounds": [asdict(bound) for bound in bounds(found)],
            "results": [result.as_json() for result in found]}
    (folder / "scale.json").write_text(json.dumps(told, indent=2) + "\n")
    text = [f"{page.measured(about, when)}: {Load().payload}-byte payloads ({fillings.DEFAULT}).", *page.doubt(found),
            table(found), page.bound_table(bounds(found)), *page.faults(found)]
    page.put_between(out / "benchmarks.md", BEGIN, END, "\n\n".join(text) + "\n")
    print("\n" + page.bound_table(bounds(found)))


def table(found: list[Result]) -> str:
    rows = [["", "routes", "messages/s demanded", "messages/s", "s", "CPU s per million", "p50 / p99 / most ms",
             "on their way: first third, last third", "lost", "doubled"], ["---", *["---:"] * 9]]
    for result in medians(found):
        if result.error:
            rows.append([NAMES["spark"], _routes(result), f"{result.rate:,}", f"failed: {result.error}", *[""] * 6])
            continue
        times = " / ".join(f"{value or 0.0:,.0f}" for value in (result.p50_ms, result.p99_ms, result.max_ms))
        rows.append([NAMES["spark"], _routes(result), f"{result.rate:,}", f"{result.per_second:,.0f}", f"{result.seconds:.0f}",
                     f"{result.cpu_per_million or 0.0:.1f}", times, f"{result.waiting_early:,.0f}, {result.waiting_late:,.0f}",
                     f"{result.lost:,}", f"{result.doubled:,}"])
    return page.markdown(rows)


def medians(found: list[Result]) -> list[Result]:
    """Of the repetitions of a measurement the one in the middle by CPU time."""
    same: dict[tuple[str, int], list[Result]] = {}
    for result in found:
        same.setdefault((result.system, result.rate), []).append(result)
    middle = (median(each, lambda result: result.cpu_per_million or 0.0) for each in same.values())
    return [result for result in middle if result is not None]


def bounds(found: list[Result]) -> list[Bound]:
    found = medians(found)
    return [*(_cost(found, rate) for rate in RATES), *_sustained(found)]


def _cost(found: list[Result], rate: int) -> Bound:
    one, many = (next((r for r in found if r.system == name and r.rate == rate and r.cpu_per_million), None)
                 for name in ("spark", f"spark-{ROUTES}"))
    ratio = (many.cpu_per_million or 0.0) / (one.cpu_per_million or 1.0) if one and many else None
    return Bound(f"{ROUTES} routes at {rate:,}/s together: CPU time a message", f"≤ {COST} × one route", ratio,
                 None if ratio is None else ratio <= COST, "×")


def _sustained(found: list[Result]) -> list[Bound]:
    long = next((r for r in found if r.rate == OFFERED and r.arrived), None)
    rate = long.per_second if long else None
    grown = long.waiting_late / max(long.waiting_early, 1.0) if long else None
    return [
        Bound("a long run: messages/s", f"≥ {SUSTAINED:,}/s", rate, None if rate is None else rate >= SUSTAINED, "/s"),
        Bound("a long run: messages on their way in its last third", f"≤ {GROWN} × in its first", grown,
              None if grown is None else grown <= GROWN, "×"),
    ]


def _routes(result: Result) -> str:
    return result.system.rpartition("-")[2] if "-" in result.system else "1"


if __name__ == "__main__":
    sys.exit(main())
