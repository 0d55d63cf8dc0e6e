"""Many random faults, and a report: ``make soak ARGS="--faults 1000 --seed 1"``. Exit status 1 if anything was wrong."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from fault.schedule import Report, play


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--faults", type=int, default=1000, help="how many in all")
    options.add_argument("--seed", type=int, default=1, help="the first run's; each following run has the next number")
    options.add_argument("--run", type=int, default=50, help="faults in one run")
    options.add_argument("--engine", choices=["inline", "spark", "both"], default="inline")
    options.add_argument("--mode", choices=["in-memory", "file-native", "both"], default="both")
    given = options.parse_args()
    engines = ["inline", "spark"] if given.engine == "both" else [given.engine]
    modes = ["in-memory", "file-native"] if given.mode == "both" else [given.mode]
    worlds = itertools.cycle(itertools.product(engines, [5, "3.1.1"], modes))
    reports: list[Report] = []
    begun, left = time.monotonic(), given.faults
    for seed, (engine, version, mode) in zip(itertools.count(given.seed), worlds, strict=False):
        if left <= 0:
            break
        with tempfile.TemporaryDirectory(prefix="soak-") as directory:
            reports.append(play(seed, min(left, given.run), Path(directory), engine, version, mode))
        left -= given.run
        print(reports[-1], flush=True)
    wrong = [report for report in reports if report.wrong]
    print(
        f"{sum(len(report.struck) for report in reports)} faults, {sum(report.messages for report in reports)} messages, "
        f"{sum(report.connects for report in reports)} connects, "
        f"{sum(report.watchdog_resets for report in reports)} watchdog resets, "
        f"{time.monotonic() - begun:.0f} s: {len(wrong)} of {len(reports)} runs wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
