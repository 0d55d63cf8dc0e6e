"""`python -m benchmarks.synced`: what it costs that every message is synced to the disk.  Part of `make bench`.

The same node in memory and file-native, side by side: one is measured right behind the other, over and over, because the speed
of a machine drifts over seconds and minutes.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import disk, fillings, machine, page
from benchmarks.figures import MANY
from benchmarks.measure import Bench, Job, Load, Result
from benchmarks.synced_page import SYNCED, pairs, results

BEGIN = "<!-- synced: written by `make bench`, do not edit between the markers -->"
END = "<!-- end of synced -->"
SMALL, LARGE = 400, 10_000    # windows
STARTED = 4.0                 # seconds of warm-up for a system that has just started: then its log grows no more
JOBS = [
    *(Job(1, 0, connections, window) for window in (SMALL, LARGE) for connections in (1, MANY)),
    *(Job(1, 0, connections, LARGE, "noise") for connections in (1, MANY)),
    *(Job(2, 0, connections, SMALL) for connections in (1, MANY)),   # no bound is set: to be seen
]


def main() -> int:
    options = parse()
    filesystem = disk.on_disk(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-synced-"))
    load = Load(seconds=options.seconds, warmup=options.warmup, started=STARTED)
    bench = Bench(folder, load)
    tools = page.shown(bench.rows("direct", [job for job in JOBS if job.filling == fillings.DEFAULT]))
    found: list[Result] = []
    for system in options.only:
        found += page.shown(bench.in_turns([system, SYNCED[system]], JOBS, options.repeat))
    if failed := any(result.error for result in (*tools, *found)):
        print(f"the logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    write(options.out, load, options.repeat, tools, found, filesystem)
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synced", description=__doc__)
    parser.add_argument("--only", default=",".join(SYNCED), help="engines to measure, of %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement (%(default)s)")
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds before it (%(default)s)")
    parser.add_argument("--repeat", type=int, default=9, help="take the median of so many measurements (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where benchmarks.md and benchmarks/ go (%(default)s)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if strange := set(options.only) - set(SYNCED):
        parser.error(f"no such engine: {', '.join(sorted(strange))}")
    return options


def write(out: Path, load: Load, rounds: int, tools: list[Result], found: list[Result], filesystem: str) -> None:
    about = machine.describe("benchmarks.synced")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    folder = out / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [pair.bound for pair in pairs(found) if pair.bound is not None]
    told = {
        "when": when, "machine": about, "load": asdict(load), "rounds": rounds, "filesystem": filesystem,
        "bounds": [asdict(bound) for bound in bounds],
        "tools": [result.as_json() for result in tools], "results": [result.as_json() for result in found],
    }
    (folder / "synced.json").write_text(json.dumps(told, indent=2) + "\n")
    head = (f"{page.measured(about, when)}: {rounds} measurements of {load.seconds:g} s each, in turns, after "
            f"{load.warmup:g} s of warm-up, {load.payload}-byte payloads, {load.topics} topics; the data on {filesystem}.")
    page.put_between(out / "benchmarks.md", BEGIN, END, "\n\n".join([head, *results(found, tools)]) + "\n")
    print("\n" + page.bound_table(bounds))


if __name__ == "__main__":
    sys.exit(main())
