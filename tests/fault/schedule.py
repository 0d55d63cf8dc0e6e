"""A random schedule of faults: the same seed gives the same faults in the same order, with the same gaps between them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from fault.faults import faults, last
from fault.stage import Stage
from support.oracle import Tally

LONGEST_PAUSE = 0.4
STRIKES_A_CONNECTION = 0.7
"""How often the next fault waits for a connection that it can break; the others strike while one is being built."""


@dataclass
class Report:
    """What became of a run."""

    seed: int
    engine: str
    version: object
    mode: str
    struck: list[str] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    resent: int = 0
    sent_as_new: int = 0
    connects: int = 0
    watchdog_resets: int = 0
    kills: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"seed {self.seed}, {self.engine}, {self.mode}, MQTT {self.version}: {len(self.struck)} faults, "
        head += f"{self.kills} lives of the node ended, {self.messages} messages, "
        head += f"{self.connects} connects, {self.watchdog_resets} watchdog resets, {self.resent} sent again"
        head += f", {self.sent_as_new} by mosquitto behind their PUBREL" if self.sent_as_new else ""
        return "\n  ".join([head + (": WRONG" if self.wrong else ""), *self.wrong, *(self.struck if self.wrong else [])])

    @property
    def messages(self) -> int:
        return sum(tally.handed_out for tally in self.tallies.values())


def play(
    seed: int, count: int, directory: Path, engine: str = "inline", version: object = 5, mode: str = "in-memory"
) -> Report:
    """So many faults under traffic, then the calm and the judgement. What does not come to an end is wrong, too."""
    report = Report(seed, engine, version, mode)
    chance = random.Random(seed)
    stage = Stage(directory, engine, version, mode)
    try:
        stage.wait_flow()
        for fault in faults(chance, count, engine, mode):
            report.struck.append(fault.name)
            fault.strike(stage)
            last(chance.uniform(0.0, LONGEST_PAUSE))
            if chance.random() < STRIKES_A_CONNECTION:
                stage.node.wait_connected()
        report.wrong = stage.calm()
        bridge = stage.node.bridge("stage")
        report.connects = stage.connects + bridge["connects"]
        report.watchdog_resets = stage.watchdog_resets + bridge["watchdogResets"]
        report.kills = stage.kills
        report.tallies = stage.oracle.tallies(stage.came())
        report.sent_as_new = len(stage.sent_as_new())
        report.resent = sum(stage.wire.resent.values()) + sum(stage.porch.resent.values())
        stage.close()
    except AssertionError as stuck:
        report.wrong.append(str(stuck))
        stage.abandon()
    except BaseException:
        stage.abandon()
        raise
    return report
