"""`make bench`: one run, one table.  See docs/benchmarks.md for what is measured and how."""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import fillings, machine, page, plot
from benchmarks.figures import LATENCY_QOS, LATENCY_RATES, MANY, Figures, bounds
from benchmarks.measure import Bench, Job, Load, Result

SYSTEMS = ("mosquitto", "inline", "spark", "messages")


def main() -> int:
    options = parse()
    load = Load(
        seconds=options.seconds, warmup=options.warmup, level=options.level, topics=options.topics, payload=options.payload,
        backlog=options.backlog)
    if options.quick:
        load = replace(load, seconds=min(load.seconds, 3.0), warmup=min(load.warmup, 1.0))
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
    folder.chmod(0o755)   # mosquitto gives up root before it opens what it needs
    job = Job(LATENCY_QOS, 0, options.connections, options.window, options.filling)
    figures = Figures(run(Bench(folder, load, options.profile), job, options), job.connections)
    if not options.profile and not any(result.error for result in figures.all):
        shutil.rmtree(folder)   # else the logs and profiles in it are of use
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    write(options.out, figures, load, job, when)
    return 1 if any(result.error for result in figures.all) else 0


def parse() -> argparse.Namespace:
    default, job = Load(), Job(LATENCY_QOS, 0, connections=1)   # why one: docs/benchmarks.md
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default=",".join(SYSTEMS), help="systems to measure, of %(default)s")
    parser.add_argument("--qos", default="0,1,2", help="levels to measure, of %(default)s")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of one measurement (%(default)s)")
    parser.add_argument("--warmup", type=float, default=default.warmup, help="seconds before it (%(default)s)")
    parser.add_argument("--repeat", type=int, default=1, help="take the median of so many measurements (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="3 s a measurement, one load: a sketch")
    parser.add_argument("--no-latency", action="store_true", help="leave the paced measurements out")
    parser.add_argument("--connections", type=int, default=job.connections, help="of the generator (%(default)s)")
    parser.add_argument("--level", type=int, choices=(4, 5), default=default.level, help="MQTT 3.1.1 is 4 (%(default)s)")
    parser.add_argument("--window", type=int, default=job.window, help="unacknowledged, a connection (%(default)s)")
    parser.add_argument("--topics", type=int, default=default.topics, help="a multiple of connections (%(default)s)")
    parser.add_argument("--payload", type=int, default=default.payload, help="bytes, at least 16 (%(default)s)")
    parser.add_argument("--filling", choices=fillings.FILLINGS, default=job.filling, help="of payloads (%(default)s)")
    parser.add_argument("--backlog", type=int, default=default.backlog,
                        help="messages between generator and counter at most (%(default)s)")
    parser.add_argument("--profile", action="store_true", help="py-spy's stacks of our node, left in a temporary folder")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where benchmarks.md and benchmarks/ go (%(default)s)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    options.qos = [int(level) for level in options.qos.split(",")]
    if strange := set(options.only) - {*SYSTEMS, "direct"}:
        parser.error(f"no such system: {', '.join(sorted(strange))}")
    return options


def run(bench: Bench, job: Job, options: argparse.Namespace) -> list[Result]:
    """Every system in turn, so that a slow minute of the machine does not hit one alone when repeated."""
    results: list[Result] = []
    paced = [] if options.no_latency else [replace(job, rate=rate) for rate in LATENCY_RATES]
    many = [] if options.quick or options.connections == MANY else [qos for qos in options.qos if qos]
    for _ in range(options.repeat):
        for system in ("direct", *(name for name in options.only if name != "direct")):
            for qos in options.qos:
                results += page.shown(bench.rows(system, [replace(job, qos=qos)]))
            if paced and system != "direct":
                results += page.shown(bench.rows(system, paced))
            for qos in many:
                results += page.shown(bench.rows(system, [replace(job, qos=qos, connections=MANY)]))
    return results


def write(out: Path, figures: Figures, load: Load, job: Job, when: str) -> None:
    about = machine.describe()
    folder = out / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps({
        "when": when, "machine": about, "load": asdict(load), "window": job.window, "filling": job.filling,
        "bounds": [asdict(bound) for bound in bounds(figures)],
        "results": [result.as_json() for result in figures.all],
    }, indent=2) + "\n")
    plot.draw(folder / "results.png", figures)
    page.write(out / "benchmarks.md", figures, load, job, about, when, "benchmarks/results.png")
    print("\n" + page.table(figures) + "\n\n" + page.bound_table(bounds(figures)))
    print(f"\nwritten: {out / 'benchmarks.md'}, {folder / 'results.json'}, {folder / 'results.png'}")


if __name__ == "__main__":
    sys.exit(main())
