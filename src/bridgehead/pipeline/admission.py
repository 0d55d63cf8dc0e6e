"""Who gets in, when there may not be room for all: decided before any route or subscriber has a message.

A message is admitted by all routes that want it or by none. Rows are looked at in their order of arrival; where a route has no
more room, all later rows that want it stay out. What becomes of a row that stays out is up to whoever sent it: MQTT 5 can be
told so, MQTT 3.1.1 has no way to say it and is held back from there on, in order; at QoS 0 nobody waits for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, row_weights
from bridgehead.pipeline.door import Door
from bridgehead.pipeline.plans import Rows, in_order

TOLD: Final = 0
HELD: Final = 1
DROPPED: Final = 2

DISK: Final = "disk"
Guard = Door | Literal["disk"]
"""What keeps a row out: a route without room, or a disk without space."""

Indices = npt.NDArray[np.int64]


@dataclass(slots=True)
class Verdict:
    """Which rows of a turn get in, and what becomes of the others."""

    conns: Indices  # who sent each row
    manners: npt.NDArray[np.uint8]  # TOLD, HELD or DROPPED: what becomes of a row that stays out
    admitted: npt.NDArray[np.bool_] = field(init=False)
    held: dict[int, tuple[int, Guard | None]] = field(default_factory=dict)  # by sender: its first held row, and why
    _out: list[tuple[Guard, Indices]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admitted = np.ones(len(self.conns), np.bool_)

    def keep_out(self, rows: Indices, guard: Guard) -> None:
        """These rows, in rising order, do not get in; nor does what follows one of them from a sender that is held back."""
        self.admitted[rows] = False
        self._out.append((guard, rows))
        holding = rows[self.manners[rows] == HELD]
        senders, firsts = np.unique(self.conns[holding], return_index=True)
        for sender, first in zip(senders.tolist(), holding[firsts].tolist(), strict=True):
            self.hold(sender, first, guard)

    def hold(self, sender: int, first: int, guard: Guard | None) -> None:
        """Hold back what this sender has sent from this row on."""
        if sender not in self.held or first < self.held[sender][0]:
            self.held[sender] = first, guard
            self.admitted[first:][self.conns[first:] == sender] = False

    def held_rows(self, sender: int) -> Indices:
        first, _ = self.held[sender]
        return first + np.flatnonzero(self.conns[first:] == sender)

    def refused(self, manner: int) -> list[tuple[Guard, Indices]]:
        """The rows that stay out in this manner, by what keeps them out."""
        behind = np.zeros(len(self.conns), np.bool_)
        for sender in self.held:
            behind[self.held_rows(sender)] = True
        chosen = [(guard, rows[(self.manners[rows] == manner) & ~behind[rows]]) for guard, rows in self._out]
        return [(guard, rows) for guard, rows in chosen if len(rows)]


def guarded(groups: list[tuple[tuple[Door, ...], Rows]], batch: Batch) -> dict[Door, Indices]:
    """The rows that each route with a bound on its publishers wants, where they may not all fit."""
    wanted: dict[Door, list[Rows]] = {}
    for doors, rows in groups:
        for door in doors:
            if door.room is not None:
                wanted.setdefault(door, []).append(rows)
    if not wanted:
        return {}
    weights = row_weights(batch)
    short = {}
    for door, parts in wanted.items():
        chosen = in_order(parts)
        rows = np.arange(batch.num_rows) if chosen is None else chosen
        assert door.room is not None
        if not door.room.surely_fits(len(rows), int(weights[-1]), door.log):
            passing = door.passing(batch)
            short[door] = rows if passing is None else rows[passing[rows]]
    return short


def judge(verdict: Verdict, wanted: dict[Door, Indices], batch: Batch, clients: pa.Array) -> None:
    """Shut the doors that run out of room, each at the row for which it has none any more, the earliest first.

    Every round shuts one door for the rest of the turn. What it keeps out takes no room of another one, so these are
    counted anew; nothing in front of the row is touched any more.
    """
    still_open = {door: (rows, _weights(door, rows, batch, clients)) for door, rows in wanted.items()}
    while still_open:
        ends: list[tuple[int, Door, Indices]] = []
        for door, (rows, weights) in still_open.items():
            stay = verdict.admitted[rows]
            rows = rows[stay]
            assert door.room is not None
            fits = door.room.fitting(weights[stay])
            if fits < len(rows):
                ends.append((int(rows[fits]), door, rows[fits:]))
        if not ends:
            return
        _, door, rows = min(ends, key=lambda end: end[0])
        del still_open[door]
        verdict.keep_out(rows, door)


def _weights(door: Door, rows: Indices, batch: Batch, clients: pa.Array) -> Indices:
    """What these rows will weigh behind the door."""
    assert door.room is not None
    if len(rows) < batch.num_rows:
        chosen = pa.array(rows)
        batch, clients = batch.take(chosen), clients.take(chosen)
    return door.room.weights(batch, clients, door.log)
