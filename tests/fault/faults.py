"""The things that go wrong, each made from chance: the same chance, the same faults."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fault.stage import KEEP_ALIVE, Stage
from support.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from support.proxy import Proxy
from support.signals import frozen, kill

KINDS = {"PUBACK": PUBACK, "PUBREC": PUBREC, "PUBCOMP": PUBCOMP, "PUBREL": PUBREL}
WAYS = ("out", "back")
WIRES = ("wire", "wire", "porch")
"""Where a fault of the network strikes: more often between node and remote, where most can go wrong."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    name: str
    strike: Callable[[Stage], None]


Maker = Callable[[random.Random], Fault]


def faults(chance: random.Random, count: int, engine: str, mode: str) -> Iterator[Fault]:
    """So many, of those that can happen there: a node is killed only where its promise is to survive it."""
    makers = [*_EVERYWHERE, *(_SPARK if engine == "spark" else []), *(_SURVIVED if mode == "file-native" else [])]
    weights = [weight for weight, _ in makers]
    for _ in range(count):
        yield chance.choices(makers, weights)[0][1](chance)


def last(seconds: float) -> None:
    """A fault lasts; nothing is waited for."""
    threading.Event().wait(seconds)


def _wire(chance: random.Random) -> tuple[str, Callable[[Stage], Proxy]]:
    """One of the wires, and how to find it."""
    name = chance.choice(WIRES)
    return ("remote" if name == "wire" else "device"), lambda stage: getattr(stage, name)


def _cut(chance: random.Random) -> Fault:
    where, wire = _wire(chance)
    return Fault(f"cut {where}", lambda stage: wire(stage).cut())


def _reset(chance: random.Random) -> Fault:
    where, wire = _wire(chance)
    return Fault(f"reset {where}", lambda stage: wire(stage).reset())


def _refuse(chance: random.Random) -> Fault:
    seconds = chance.uniform(0.1, 2.0)
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        wire(stage).close()
        last(seconds)
        wire(stage).open()

    return Fault(f"refuse {where} for {seconds:.1f} s", strike)


def _hole(chance: random.Random) -> Fault:
    seconds = chance.choice([chance.uniform(0.1, 1.0), chance.uniform(0.1, 1.0), 2.0 * KEEP_ALIVE])
    reset = chance.random() < 0.5
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        wire(stage).hole()
        last(seconds)
        if reset:
            wire(stage).reset()
        wire(stage).heal()

    return Fault(f"hole before {where} for {seconds:.1f} s{', then reset' if reset else ''}", strike)


def _slow(chance: random.Random) -> Fault:
    rate, seconds, cut = chance.uniform(5_000, 100_000), chance.uniform(0.1, 1.0), chance.random() < 0.5
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        wire(stage).throttle(rate)
        last(seconds)
        if cut:
            wire(stage).cut()
        wire(stage).heal()

    return Fault(f"{where} at {rate:.0f} B/s for {seconds:.1f} s{', cut' if cut else ''}", strike)


def _late(chance: random.Random) -> Fault:
    seconds = chance.uniform(0.01, 0.3)
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        wire(stage).delay(seconds)
        last(3 * seconds)
        wire(stage).delay(0.0)

    return Fault(f"{where} {seconds:.2f} s late", strike)


def _swallow(chance: random.Random) -> Fault:
    """An answer vanishes from a connection that goes on. The node notices at its remote; its clients wait, and are cut."""
    name, way = chance.choice(list(KINDS)), chance.choice(WAYS)
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        wire(stage).swallow(KINDS[name], way=way)
        if where == "device":
            last(0.1)
            wire(stage).cut()

    return Fault(f"swallow {name} {way} of {where}", strike)


def _cut_at(chance: random.Random) -> Fault:
    """Cut in the very moment in which a packet of this kind would pass."""
    name, way = chance.choice([*KINDS, "PUBLISH"]), chance.choice(WAYS)
    reset = chance.random() < 0.5
    where, wire = _wire(chance)

    def strike(stage: Stage) -> None:
        found = wire(stage)
        found.at({**KINDS, "PUBLISH": PUBLISH}[name], found.reset if reset else found.cut, way)

    return Fault(f"{'reset' if reset else 'cut'} at {name} {way} of {where}", strike)


def _frozen(chance: random.Random) -> Fault:
    who, seconds = chance.choice(["node", "remote"]), chance.uniform(0.1, 2.0)

    def strike(stage: Stage) -> None:
        with frozen(stage.node.pid if who == "node" else stage.remote.pid):
            last(seconds)

    return Fault(f"{who} stands still for {seconds:.1f} s", strike)


def _restarted_remote(chance: random.Random) -> Fault:
    """Stopped, not killed: mosquitto writes its sessions only when it ends, so a kill would be its loss and prove nothing."""
    seconds = chance.uniform(0.0, 1.0)
    return Fault(f"remote restarts after {seconds:.1f} s", lambda stage: stage.restart_remote(seconds))


def _frozen_pipeline(chance: random.Random) -> Fault:
    who, seconds = chance.choice(["driver", "jvm"]), chance.uniform(0.1, 2.0)

    def strike(stage: Stage) -> None:
        with frozen(getattr(stage.node, who)().pid):
            last(seconds)

    return Fault(f"{who} stands still for {seconds:.1f} s", strike)


def _killed_pipeline(chance: random.Random) -> Fault:
    who = chance.choice(["driver", "jvm", "worker", "worker"])
    return Fault(f"kill -9 {who}", lambda stage: kill(getattr(stage.node, who)()))


def _killed_node(chance: random.Random) -> Fault:
    return Fault("kill -9 node", Stage.kill_node)


def _full_disk(chance: random.Random) -> Fault:
    seconds = chance.uniform(0.1, 2.0)
    return Fault(f"disk full for {seconds:.1f} s", lambda stage: stage.fill_disk(seconds))


def _killed_on_full_disk(chance: random.Random) -> Fault:
    """What waits for room is let in and held back again and again meanwhile; the kill falls into that."""
    seconds = chance.uniform(0.1, 2.0)
    return Fault(f"kill -9 node, its disk full for {seconds:.1f} s", lambda stage: stage.kill_on_full_disk(seconds))


_EVERYWHERE: list[tuple[int, Maker]] = [
    (3, _cut), (3, _reset), (2, _refuse), (2, _hole), (3, _slow), (2, _late), (5, _swallow), (5, _cut_at), (2, _frozen),
    (1, _restarted_remote),
]  # fmt: skip
_SPARK: list[tuple[int, Maker]] = [(6, _frozen_pipeline), (6, _killed_pipeline)]
_SURVIVED: list[tuple[int, Maker]] = [(4, _killed_node), (1, _full_disk), (1, _killed_on_full_disk)]
