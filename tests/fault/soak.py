"""Many random faults, and a report: ``make soak ARGS="--faults 1000 --seed 1"``. Exit status 1 if anything was wrong.

What a seed does depends on nothing but the seed and the other options: ``--seed 17 --faults 50`` plays run 17 of a soak again.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from fault.schedule import Report, play
from support.oracle import Tally


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--faults", type=int, default=1000, help="how many in all (%(default)s)")
    options.add_argument("--seed", type=int, default=1, help="the first run's; each following run has the next number")
    options.add_argument("--run", type=int, default=50, help="faults in one run (%(default)s)")
    options.add_argument("--engine", choices=["inline", "spark", "both"], default="both", help="(%(default)s)")
    options.add_argument("--mode", choices=["in-memory", "file-native", "both"], default="both", help="(%(default)s)")
    given = options.parse_args()
    engines = ["inline", "spark"] if given.engine == "both" else [given.engine]
    modes = ["in-memory", "file-native"] if given.mode == "both" else [given.mode]
    worlds = list(itertools.product(engines, [5, "3.1.1"], modes))
    reports: list[Report] = []
    begun = time.monotonic()
    for number, start in enumerate(range(0, given.faults, given.run)):
        seed = given.seed + number
        engine, version, mode = worlds[seed % len(worlds)]
        with tempfile.TemporaryDirectory(prefix="soak-") as directory:
            reports.append(play(seed, min(given.faults - start, given.run), Path(directory), engine, version, mode))
        print(reports[-1], flush=True)
    print(summary(reports, time.monotonic() - begun))
    return 1 if any(report.wrong for report in reports) else 0


def summary(reports: list[Report], seconds: float) -> str:
    wrong = [report for report in reports if report.wrong]
    lines = [
        f"{sum(len(report.struck) for report in reports)} faults, "
        f"{sum(report.kills for report in reports)} lives of nodes ended, "
        f"{sum(report.connects for report in reports)} connects, "
        f"{sum(report.watchdog_resets for report in reports)} watchdog resets, {seconds:.0f} s"
    ]
    for name in [f"{way}/{qos}" for way in ("push", "pull") for qos in range(3)]:
        tally = sum((report.tallies.get(name, Tally()) for report in reports), Tally())
        promised = "" if name.endswith("0") else f", {tally.lost} acknowledged ones lost"
        lines.append(f"{name.replace('/', ' at QoS ')}: {tally.handed_out} messages{promised}, {tally.doubled} doubled")
    if as_new := sum(report.sent_as_new for report in reports):
        lines.append(f"{as_new} of QoS 2 were sent by mosquitto once more behind their PUBREL: doubled, and not by the node")
    seeds = f": seeds {[report.seed for report in wrong]}" if wrong else ""
    lines.append(f"{len(wrong)} of {len(reports)} runs wrong{seeds}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
