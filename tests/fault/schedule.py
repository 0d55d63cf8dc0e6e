"""A random schedule of faults: the same seed gives the same faults in the same order, with the same gaps between them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fault.stage import KEEP_ALIVE, Stage
from support.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from support.signals import frozen, kill

LONGEST_PAUSE = 0.4
STRIKES_A_CONNECTION = 0.7
"""How often the next fault waits for a connection that it can break; the others strike while one is being built."""
KINDS = {"PUBACK": PUBACK, "PUBREC": PUBREC, "PUBCOMP": PUBCOMP, "PUBREL": PUBREL}
WAYS = ("out", "back")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    name: str
    strike: Callable[[Stage], None]


@dataclass
class Report:
    """What became of a run."""

    seed: int
    engine: str
    version: object
    mode: str
    struck: list[str] = field(default_factory=list)
    messages: int = 0
    resent: int = 0
    connects: int = 0
    watchdog_resets: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"seed {self.seed}, {self.engine}, {self.mode}, MQTT {self.version}: {len(self.struck)} faults, "
        head += f"{self.messages} messages, "
        head += f"{self.connects} connects, {self.watchdog_resets} watchdog resets, {self.resent} sent again"
        return "\n  ".join([head + (": WRONG" if self.wrong else ""), *self.wrong, *(self.struck if self.wrong else [])])


def play(
    seed: int, count: int, directory: Path, engine: str = "inline", version: object = 5, mode: str = "in-memory"
) -> Report:
    """So many faults under traffic, then the calm and the judgement."""
    report = Report(seed, engine, version, mode)
    chance = random.Random(seed)
    stage = Stage(directory, engine, version, mode)
    try:
        stage.wait_flow()
        for fault in faults(chance, count, engine):
            report.struck.append(fault.name)
            fault.strike(stage)
            _while(chance.uniform(0.0, LONGEST_PAUSE))
            if chance.random() < STRIKES_A_CONNECTION:
                stage.node.wait_connected()
        report.wrong = stage.calm()
        bridge = stage.node.bridge("stage")
        report.connects, report.watchdog_resets = bridge["connects"], bridge["watchdogResets"]
        report.messages = sum(topic.handed_out for topic in stage.oracle.topics.values())
        report.resent = sum(stage.wire.resent.values())
    except BaseException:
        print(report, *report.struck, sep="\n  ")
        raise
    finally:
        stage.close()
    return report


def faults(chance: random.Random, count: int, engine: str) -> Iterator[Fault]:
    makers = [*_EVERYWHERE, *(_SPARK if engine == "spark" else [])]
    weights = [weight for weight, _ in makers]
    for _ in range(count):
        yield chance.choices(makers, weights)[0][1](chance)


def _while(seconds: float) -> None:
    """A fault lasts; nothing is waited for."""
    threading.Event().wait(seconds)


def _cut(chance: random.Random) -> Fault:
    return Fault("cut", lambda stage: stage.wire.cut())


def _reset(chance: random.Random) -> Fault:
    return Fault("reset", lambda stage: stage.wire.reset())


def _refuse(chance: random.Random) -> Fault:
    seconds = chance.uniform(0.1, 2.0)

    def strike(stage: Stage) -> None:
        stage.wire.close()
        _while(seconds)
        stage.wire.open()

    return Fault(f"refuse for {seconds:.1f} s", strike)


def _hole(chance: random.Random) -> Fault:
    seconds = chance.choice([chance.uniform(0.1, 1.0), chance.uniform(0.1, 1.0), 2.0 * KEEP_ALIVE])
    reset = chance.random() < 0.5

    def strike(stage: Stage) -> None:
        stage.wire.hole()
        _while(seconds)
        if reset:
            stage.wire.reset()
        stage.wire.heal()

    return Fault(f"hole for {seconds:.1f} s{', then reset' if reset else ''}", strike)


def _slow(chance: random.Random) -> Fault:
    rate, seconds = chance.uniform(5_000, 100_000), chance.uniform(0.1, 1.0)
    porch, cut = chance.random() < 0.3, chance.random() < 0.5

    def strike(stage: Stage) -> None:
        wire = stage.porch if porch else stage.wire
        wire.throttle(rate)
        _while(seconds)
        if cut and not porch:
            wire.cut()
        wire.heal()

    return Fault(f"{'device' if porch else 'remote'} at {rate:.0f} B/s for {seconds:.1f} s{', cut' if cut else ''}", strike)


def _late(chance: random.Random) -> Fault:
    seconds = chance.uniform(0.01, 0.3)

    def strike(stage: Stage) -> None:
        stage.wire.delay(seconds)
        _while(3 * seconds)
        stage.wire.delay(0.0)

    return Fault(f"{seconds:.2f} s late", strike)


def _swallow(chance: random.Random) -> Fault:
    name, way = chance.choice(list(KINDS)), chance.choice(WAYS)

    def strike(stage: Stage) -> None:
        stage.wire.swallow(KINDS[name], way=way)

    return Fault(f"swallow {name} {way}", strike)


def _cut_at(chance: random.Random) -> Fault:
    """Cut in the very moment in which a packet of this kind would pass."""
    name, way = chance.choice([*KINDS, "PUBLISH"]), chance.choice(WAYS)
    reset = chance.random() < 0.5

    def strike(stage: Stage) -> None:
        stage.wire.at({**KINDS, "PUBLISH": PUBLISH}[name], stage.wire.reset if reset else stage.wire.cut, way)

    return Fault(f"{'reset' if reset else 'cut'} at {name} {way}", strike)


def _frozen(chance: random.Random) -> Fault:
    who, seconds = chance.choice(["node", "remote"]), chance.uniform(0.1, 2.0)

    def strike(stage: Stage) -> None:
        with frozen(stage.node.pid if who == "node" else stage.remote.pid):
            _while(seconds)

    return Fault(f"{who} stands still for {seconds:.1f} s", strike)


def _frozen_pipeline(chance: random.Random) -> Fault:
    who, seconds = chance.choice(["driver", "jvm"]), chance.uniform(0.1, 2.0)

    def strike(stage: Stage) -> None:
        with frozen(getattr(stage.node, who)().pid):
            _while(seconds)

    return Fault(f"{who} stands still for {seconds:.1f} s", strike)


def _killed_pipeline(chance: random.Random) -> Fault:
    who = chance.choice(["driver", "jvm", "worker", "worker"])
    return Fault(f"kill -9 {who}", lambda stage: kill(getattr(stage.node, who)()))


Maker = Callable[[random.Random], Fault]
_EVERYWHERE: list[tuple[int, Maker]] = [
    (3, _cut), (3, _reset), (2, _refuse), (2, _hole), (3, _slow), (2, _late), (5, _swallow), (5, _cut_at), (2, _frozen)
]  # fmt: skip
_SPARK: list[tuple[int, Maker]] = [(6, _frozen_pipeline), (6, _killed_pipeline)]
