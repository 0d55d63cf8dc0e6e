"""The doors of many routes, taken as one: what came in a turn is appended once to each log, with the route of every row.

What a turn costs does not grow with the number of routes among its messages: hop checks, persist and the choice of rows are
columns, one entry a door; only the counters of those routes that got rows are touched one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, columns_of
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import STORED
from bridgehead.pipeline.door import Arrived, Door
from bridgehead.pipeline.hops import below_hops
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log

NO_LIMIT: Final = np.iinfo(np.int64).max

Numbers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]


class Planned(Protocol):
    """What is decided for a topic, as far as it is about routes."""

    @property
    def doors(self) -> tuple[Door, ...]: ...


class Doorways:
    """Which doors each plan leads to, as columns; learned from the plans as they come."""

    def __init__(self) -> None:
        self._learn_anew([])

    def _learn_anew(self, plans: Sequence[Planned]) -> None:
        self._plans = plans
        self._known = 0  # how many of them are in the columns
        self._first = np.zeros(64, np.int64)  # by plan: where its doors begin in _flat
        self._count = np.zeros(64, np.int64)  # by plan: how many doors it has
        self._flat = np.zeros(64, np.int32)  # numbers of doors
        self._used = 0  # of _flat
        self._ways: list[_Way] = []  # one a log
        self._way_of: dict[str, int] = {}  # by the name of the log
        self._door_of: dict[Door, int] = {}
        self._places: list[tuple[int, int]] = []  # by the number of a door: its way, and its place there
        self._way_by_door = self._place_by_door = np.zeros(0, np.int32)

    def admit(
        self, changes: Changes, arrived: Arrived, plans: Sequence[Planned], numbers: Numbers, but: Chosen | None = None
    ) -> None:
        """Rows with the number of their plan go where it leads, all but those that are chosen in ``but``."""
        if plans is not self._plans:
            self._learn_anew(plans)
        if len(plans) > self._known:
            self._learn()
        rows, doors = self._spread(numbers)
        if but is not None and but.any():
            rows = np.arange(len(numbers)) if rows is None else rows
            stay = ~but[rows]
            rows, doors = rows[stay], doors[stay]
        if not len(doors):
            return
        if len(self._ways) == 1:
            self._ways[0].admit(changes, arrived, rows, self._place_by_door[doors])
            return
        rows = np.arange(len(numbers)) if rows is None else rows
        ways = self._way_by_door[doors]
        for number in np.unique(ways):
            mine = ways == number
            self._ways[number].admit(changes, arrived, rows[mine], self._place_by_door[doors[mine]])

    def _spread(self, plans: Numbers) -> tuple[Places | None, Numbers]:
        """Rows, each as often as it goes to a door, in their order, and these doors; None stands for each row once."""
        counts, firsts = self._count[plans], self._first[plans]
        if (counts == 1).all():
            return None, self._flat[firsts]
        rows = np.repeat(np.arange(len(plans)), counts)
        behind = np.cumsum(counts)
        within = np.arange(len(rows)) - np.repeat(behind - counts, counts)
        return rows, self._flat[firsts[rows] + within]

    def _learn(self) -> None:
        for plan in self._plans[self._known :]:
            doors = [self._number(door) for door in plan.doors]
            self._first, self._count = _with_room(self._first, self._known), _with_room(self._count, self._known)
            self._flat = _with_room(self._flat, self._used + len(doors))
            self._first[self._known], self._count[self._known] = self._used, len(doors)
            self._flat[self._used : self._used + len(doors)] = doors
            self._used += len(doors)
            self._known += 1
        ways_and_places = np.array(self._places, np.int32).reshape(-1, 2)
        self._way_by_door, self._place_by_door = ways_and_places[:, 0].copy(), ways_and_places[:, 1].copy()

    def _number(self, door: Door) -> int:
        number = self._door_of.get(door)
        if number is None:
            number = self._door_of[door] = len(self._places)
            at = self._way_of.setdefault(door.log.name, len(self._ways))
            if at == len(self._ways):
                self._ways.append(_Way(door.log))
            self._places.append((at, self._ways[at].add(door)))
        return number


class _Way:
    """The doors that lead into one log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._doors: list[Door] = []
        self._by_route: dict[str, Door] = {}
        self._names: tuple[str, ...] = ()
        self._limits = np.zeros(0, np.int64)  # by door: the hop count from which on a message stays out
        self._persist = np.zeros(0, np.bool_)  # by door

    def add(self, door: Door) -> int:
        """The door gets the next place here."""
        self._doors.append(door)
        self._by_route[door.rule.route] = door
        self._names = (*self._names, door.rule.route)
        limit = door.rule.hop_limit
        self._limits = np.append(self._limits, NO_LIMIT if limit is None else limit)
        self._persist = np.append(self._persist, door.rule.persist)
        return len(self._doors) - 1

    def admit(self, changes: Changes, arrived: Arrived, rows: Places | None, places: Numbers) -> None:
        """Rows in rising order, each with the place of its door; None stands for each row once."""
        if (places == places[0]).all():
            self._doors[places[0]].admit(changes, *arrived.only(rows))
            return
        if rows is not None:
            chosen = pa.array(rows)
            arrived = Arrived(*(each.take(chosen) for each in arrived))
        keep = below_hops(arrived.batch, self._limits[places])
        if keep is not None:
            for route, count in Labels(self._names, places).counted(~keep):
                self._by_route[route].ledger.turn_away("loop", count)
            mask = pa.array(keep)
            arrived, places = Arrived(*(each.filter(mask) for each in arrived)), places[keep]
            if not len(places):
                return
        self._enter(changes, arrived, Labels(self._names, places))

    def _enter(self, changes: Changes, arrived: Arrived, routes: Labels) -> None:
        batch = arrived.batch
        columns = columns_of(batch)
        qos = columns["qos"].to_numpy(zero_copy_only=False)
        persist = self._persist[routes.of_row]
        if not persist.all():
            qos = np.where(persist, qos, 0).astype(np.int32)
            columns["qos"] = pa.array(qos)
        columns["received_at"] = arrived.received_at
        columns["client_id"] = arrived.clients
        columns["route"] = (routes.short() if self.log.durable else routes).column()
        stored: Batch = pa.RecordBatch.from_arrays([columns[name] for name in STORED.names], schema=STORED)
        if not self._doors[0].pass_through(changes, stored):  # that of a log, so the same for all of them
            self.log.append(changes, stored, routes)
        safe = dict(routes.counted(qos > 0)) if self.log.durable else {}
        for route, rows in routes.counted():
            ledger = self._by_route[route].ledger
            ledger.receive(rows, safe.get(route, 0) if ledger.keeps else 0)
            ledger.write(changes)


def _with_room(column: npt.NDArray[Any], at: int) -> npt.NDArray[Any]:
    """The same column, longer if this place is not in it."""
    return column if at < len(column) else np.resize(column, 2 * at)
