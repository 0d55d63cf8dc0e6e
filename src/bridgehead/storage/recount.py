"""Counts what a stopped node has left on the disk: every row looked at, nothing changed, nothing of journal or outbox asked.

The other opinion beside the ledger: what waits is counted from the rows themselves, batch by batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from rocksdict import AccessType, Rdict

from bridgehead.columns.batches import Batch
from bridgehead.errors import NotThereError, StorageError
from bridgehead.storage import frontlog
from bridgehead.storage.donenotes import DONE_NOTES, OUTBOX
from bridgehead.storage.engine import Shelf
from bridgehead.storage.journal import JOURNAL, consumed_name
from bridgehead.storage.keys import Kind, number_of, numbered_key, shelf_of
from bridgehead.storage.ledger import LEDGER, ROUTE, Tally
from bridgehead.storage.lock import StoreLock
from bridgehead.storage.meta import front_of, must_be_ours
from bridgehead.storage.opening import is_new, options, rdict
from bridgehead.storage.overlay import Overlay
from bridgehead.storage.values import unpack_batch, unpack_note, unpack_shape, unpack_state

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Recount:
    """What was found. Only rows that are on the disk count: those of QoS 0 never were."""

    routes: set[str] = field(default_factory=set)  # those that any life knew
    tallies: dict[str, Tally] = field(default_factory=dict)  # what their ledgers say
    journal: Counter[str] = field(default_factory=Counter)  # rows that wait in the journal, by route
    outbox: Counter[str] = field(default_factory=Counter)  # rows that wait in its outbox, by route
    damage: list[str] = field(default_factory=list)


def recount(directory: Path) -> Recount:
    """NotThereError: there is no store; StartError: a node uses it, or it is not ours; StorageError: it cannot be read."""
    lock = StoreLock(directory, shared=True)
    try:
        if is_new(directory):
            raise NotThereError(f"there is no store in {directory}")
        return _read(directory)
    except StorageError as error:
        in_one_line = " ".join(str(error).split())  # RocksDB may need several
        raise StorageError(f"{directory} cannot be read: {in_one_line}") from None
    finally:
        lock.release()


def _read(directory: Path) -> Recount:
    try:
        db = rdict(directory, options(), AccessType.read_only(False))
    except Exception as error:
        raise StorageError(str(error)) from None
    try:
        must_be_ours(db, directory)
        return _count(_Store(db, _not_yet_there(db, directory)))
    finally:
        db.close()


def _not_yet_there(db: Rdict, directory: Path) -> Overlay:
    """What a kill has left in the front log: the next start would give it to RocksDB."""
    overlay = Overlay()
    for record in frontlog.left(directory, front_of(db)):
        overlay.put(record.changes())
    return overlay


def _count(store: _Store) -> Recount:
    found = Recount()
    states = store.states(found.damage)
    for shelf, state in states.items():
        if shelf[0] in (LEDGER, ROUTE):
            found.routes.add(shelf[1])
        if shelf[0] == LEDGER:
            found.tallies[shelf[1]] = Tally.unpack(state)
    done: dict[str, list[tuple[int, int]]] = {}
    for shelf, first, rows in store.notes(found.damage):
        if shelf[0] == DONE_NOTES:
            done.setdefault(shelf[1], []).append((first, rows))
    for shelf, number, present, batch in store.batches(found.damage):
        numbers = number + np.flatnonzero(present)
        if shelf[0] == JOURNAL:
            waiting = batch.filter(numbers >= (states.get(consumed_name(shelf[1])) or 0))
            for each in pc.value_counts(waiting.column("route").dictionary_decode()).to_pylist():
                found.journal[each["values"]] += each["counts"]
        elif shelf[0] == OUTBOX:
            found.outbox[shelf[1]] += len(numbers) - _among(numbers, done.get(shelf[1], []))
    return found


def _among(numbers: npt.NDArray[np.int64], runs: list[tuple[int, int]]) -> int:
    """How many of these numbers are in one of the runs; the runs of a route do not overlap."""
    if not len(numbers) or not runs:
        return 0
    ends = [(first, first + rows) for first, rows in runs if first <= numbers[-1] and first + rows > numbers[0]]
    return sum(int(np.searchsorted(numbers, last) - np.searchsorted(numbers, first)) for first, last in ends)


class _Store:
    """The keys and values of a store, as they are."""

    def __init__(self, db: Rdict, overlay: Overlay) -> None:
        self._db = db
        self._overlay = overlay

    def states(self, damage: list[str]) -> dict[Shelf, Any]:
        states = {}
        for key, value in self._overlay.scan(self._db, Kind.STATE.value):
            try:
                states[shelf_of(key)] = unpack_state(key, value)
            except StorageError as error:
                damage.append(f"the state {'/'.join(shelf_of(key))}: {error}")
        return states

    def notes(self, damage: list[str]) -> Iterator[tuple[Shelf, int, int]]:
        for key, value in self._overlay.scan(self._db, Kind.NOTE.value):
            try:
                yield shelf_of(key), number_of(key), unpack_note(key, value)
            except StorageError as error:
                damage.append(f"note {number_of(key)} of {'/'.join(shelf_of(key))}: {error}")

    def batches(self, damage: list[str]) -> Iterator[tuple[Shelf, int, Mask, Batch]]:
        """Every batch that counts: its first number, which of its numbers are on the disk, and these rows."""
        for key, value in self._overlay.scan(self._db, Kind.INDEX.value):
            shelf, number = shelf_of(key), number_of(key)
            if shelf[0] not in (JOURNAL, OUTBOX):
                continue
            try:
                shape = unpack_shape(key, value, "the index entry")
                place = numbered_key(Kind.BATCH, shelf, number)
                stored = self._overlay.get(self._db, place)
                if stored is None:
                    raise StorageError("the batch is missing")
                batch = unpack_batch(place, stored, "the batch")
            except Exception as error:  # RocksDB has checksums of its own, Arrow a format
                damage.append(f"batch {number} of {'/'.join(shelf)}: {error}")
            else:
                yield shelf, number, np.ones(shape.rows, np.bool_) if shape.present is None else shape.present, batch
