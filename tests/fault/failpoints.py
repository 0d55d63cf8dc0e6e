"""Deaths at named moments of the pipeline, by seed, and a report: ``python -m fault.failpoints --hits 20 --seed 1``.

Each point is hit so many times in all, half of them with a transform on the way and half without. Exit status 1 if anything
was wrong. What "right" means is the oracle's: every acknowledged message arrives, in order, at QoS 2 once.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bridgehead.failpoints import HITS, POINTS, VARIABLE
from fault.faults import last
from fault.stage import Stage
from support.oracle import Tally
from support.waiting import until

IDENTITY = {"sql": "SELECT * FROM messages"}
LONGEST_PAUSE = 0.5


@dataclass
class Deaths:
    """What became of a run."""

    seed: int
    transform: bool
    hits: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, Tally] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        how = "with a transform" if self.transform else "without a transform"
        head = f"seed {self.seed}, {how}: {sum(self.hits.values())} deaths, "
        head += f"{sum(tally.handed_out for tally in self.tallies.values())} messages"
        return "\n  ".join([head + (": WRONG" if self.wrong else ""), *self.wrong])


class Points:
    """Arms failpoints and sees them strike."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.environment = {VARIABLE: str(directory)}

    def strike(self, point: str, detail: Callable[[], object]) -> None:
        """Arm it, and see somebody die there."""
        before = self.struck()[point]
        (self._directory / point).touch()
        until(lambda: self.struck()[point] > before, f"somebody passes {point}", detail=detail)

    def struck(self) -> Counter[str]:
        hits = self._directory / HITS
        return Counter(line.split()[0] for line in hits.read_text().splitlines()) if hits.exists() else Counter()


def play(seed: int, points: tuple[str, ...], each: int, directory: Path, *, transform: bool) -> Deaths:
    """Every point so many times in a random order under traffic, then the calm and the judgement."""
    report = Deaths(seed, transform)
    chance = random.Random(seed)
    order = [point for point in points for _ in range(each)]
    chance.shuffle(order)
    armed = Points(directory / "failpoints")
    stage = Stage(directory, "spark", 5, "file-native", IDENTITY if transform else None, armed.environment)
    try:
        stage.wait_flow()
        for point in order:
            armed.strike(point, stage.detail)
            if point.startswith("node."):
                stage.next_life()
            last(chance.uniform(0.0, LONGEST_PAUSE))
        report.wrong = stage.calm()
        report.tallies = stage.oracle.tallies(stage.came())
        stage.close()
    except AssertionError as stuck:
        report.wrong.append(str(stuck))
        stage.abandon()
    except BaseException:
        stage.abandon()
        raise
    report.hits = armed.struck()
    return report


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hits", type=int, default=20, help="of each point (%(default)s)")
    options.add_argument("--seed", type=int, default=1, help="the first run's; each following run has the next number")
    options.add_argument("--run", type=int, default=2, help="hits of each point in one run (%(default)s)")
    options.add_argument("--only", default=",".join(POINTS), help="points, of %(default)s")
    given = options.parse_args()
    points = tuple(given.only.split(","))
    reports: list[Deaths] = []
    for number, done in enumerate(range(0, given.hits, given.run)):
        with tempfile.TemporaryDirectory(prefix="failpoints-") as directory:
            each = min(given.run, given.hits - done)
            reports.append(play(given.seed + number, points, each, Path(directory), transform=number % 2 == 1))
        print(reports[-1], flush=True)
    print(summary(reports))
    return 1 if any(report.wrong for report in reports) else 0


def summary(reports: list[Deaths]) -> str:
    hits = sum((report.hits for report in reports), Counter[str]())
    lines = [f"{point}: {hits[point]} deaths" for point in POINTS if hits[point]]
    for name in [f"{way}/{qos}" for way in ("push", "pull") for qos in (1, 2)]:
        tally = sum((report.tallies.get(name, Tally()) for report in reports), Tally())
        lines.append(f"{name.replace('/', ' at QoS ')}: {tally.handed_out} messages, {tally.lost} acknowledged ones lost, "
                     f"{tally.doubled} doubled")
    wrong = [report.seed for report in reports if report.wrong]
    return "\n".join([*lines, f"{len(wrong)} of {len(reports)} runs wrong" + (f": seeds {wrong}" if wrong else "")])


if __name__ == "__main__":
    sys.exit(main())
