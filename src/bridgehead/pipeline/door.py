"""Before the journal: the hop check and the persist rule of one route, then its log.

Filters and excludes look only at the topic; whoever distributes asks them once per distinct topic (``wants``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, columns_of, constant, constant_label
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import STORED, TIMESTAMP
from bridgehead.pipeline.hops import below_hops
from bridgehead.pipeline.room import Room
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.outbox import QUEUE_FULL
from bridgehead.wire.topicnames import matches

STOPPED: Final = "stopped"
"""The reason of rows that came while their bridge was stopped, if that does not queue them."""


@dataclass(frozen=True, slots=True)
class DoorRule:
    """What decides whether a message enters a route."""

    route: str
    bridge: str
    filters: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    persist: bool = True
    hop_limit: int | None = 1  # None: loop prevention is off


class Arrived(NamedTuple):
    """What came in one turn: rows of WIRE form, the client of each, its time of arrival."""

    batch: Batch
    clients: pa.DictionaryArray
    received_at: pa.Array

    def only(self, rows: npt.NDArray[np.int64] | None) -> Arrived:
        """The chosen rows, given in rising order; None stands for all."""
        if rows is None or len(rows) == self.batch.num_rows:
            return self
        chosen = pa.array(rows)
        return Arrived(*(each.take(chosen) for each in self))


PassThrough = Callable[[Changes, Batch], bool]
"""Takes rows of some routes into their outboxes by the given write; False if they must go through the log."""


def into_the_log(changes: Changes, stored: Batch) -> bool:
    return False


class Door:
    """One route's way into the journal."""

    def __init__(self, rule: DoorRule, log: Log, ledger: Ledger | None = None) -> None:
        self.rule = rule
        self.log = log
        self.ledger = Ledger(rule.route) if ledger is None else ledger
        self.room: Room | None = None  # where a full queue makes publishers wait
        self.pass_through: PassThrough = into_the_log  # a way past the log while nothing waits in it
        self.closed = False  # the bridge is stopped, and does not want to know what comes meanwhile
        self.refused = 0  # messages for which there was no room, and whose publisher was told so

    @property
    def received(self) -> int:
        """Rows that matched the filters."""
        return self.ledger.received

    @property
    def dropped(self) -> dict[str, int]:
        """By reason, before they were outbox rows."""
        return self.ledger.dropped_before

    def filters_match(self, topic: str) -> bool:
        return any(matches(one, topic) for one in self.rule.filters)

    def excludes_match(self, topic: str) -> bool:
        return self.closed or any(matches(one, topic) for one in self.rule.excludes)

    def exclude(self, rows: int) -> None:
        """So many rows matched, and an exclude keeps them out, or a door that is closed."""
        self.ledger.turn_away(STOPPED if self.closed else "excluded", rows)

    def turn_away(self, rows: int, *, told: bool) -> None:
        """So many rows matched and had no room: they are lost, unless their publisher was told and keeps them."""
        if told:
            self.refused += rows
        else:
            self.ledger.turn_away(QUEUE_FULL, rows)

    def admit(self, changes: Changes, batch: Batch, clients: pa.DictionaryArray, received_at: pa.Array) -> int:
        """Append those rows to the log that may enter; returns how many did."""
        keep = self.passing(batch)
        if keep is not None:
            self.ledger.turn_away("loop", int((~keep).sum()))
            mask = pa.array(keep)
            batch, clients, received_at = batch.filter(mask), clients.filter(mask), received_at.filter(mask)
            if batch.num_rows == 0:
                return 0
        rows = batch.num_rows
        columns = columns_of(batch)
        if not self.rule.persist:
            columns["qos"] = constant(0, pa.int32(), rows)
        columns["received_at"] = received_at
        columns["client_id"] = clients
        columns["route"] = constant_label(self.rule.route, rows)
        stored = pa.RecordBatch.from_arrays([columns[name] for name in STORED.names], schema=STORED)
        safe = self.ledger.safe_rows(stored)
        if not self.pass_through(changes, stored):
            self.log.append(changes, stored, Labels.one(self.rule.route, rows))
        self.ledger.receive(rows, safe)
        self.ledger.write(changes)
        return int(rows)

    def admit_again(self, changes: Changes, rows: Batch) -> None:
        """OUTBOX rows that are messages as they came once: they begin their way anew, and count as received once more."""
        columns = columns_of(rows)
        columns["client_id"] = constant_label("", rows.num_rows)
        columns["route"] = constant_label(self.rule.route, rows.num_rows)
        stored = pa.RecordBatch.from_arrays([columns[name] for name in STORED.names], schema=STORED)
        self.log.append(changes, stored, Labels.one(self.rule.route, rows.num_rows))
        self.ledger.receive(rows.num_rows, self.ledger.safe_rows(stored))
        self.ledger.write(changes)
        changes.when_safe.append(partial(self.log.publish, self.log.end))

    def passing(self, batch: Batch) -> npt.NDArray[np.bool_] | None:
        """Which rows may cross another bridge; None if all may."""
        limit = self.rule.hop_limit
        return None if limit is None else below_hops(batch, limit)


def timestamps(received_at: int, rows: int) -> pa.Array:
    """One arrival time for all rows of a tick."""
    return pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(np.full(rows, received_at, np.int64))], 0)
