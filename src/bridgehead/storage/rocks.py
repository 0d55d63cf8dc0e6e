"""The file-native engine: RocksDB through rocksdict. What is synced survives a kill of the node and a loss of power.

Constraints: rocksdict's write, put and get hold the GIL, flush_wal(True) lets it go. So writes are made without a sync, the
batches of a large one piece by piece ahead of the atomic write that makes them count, and synced in groups (``Syncing``).

Layout, by kind of key: a batch; its index entry (rows, weight, holes), which makes it count; notes; states; and the format
with the incarnation. The write-ahead log is one sequence: what is synced is everything up to a point, in the order written.

Rows of QoS 0 never come here: they stay in RAM and are joined with the others when a batch is read. After a restart their
places are holes. Only the index and these rows cost RAM; of the batches, the last ones used are kept in a bounded cache.
"""

from __future__ import annotations

import logging
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rocksdict import Checkpoint, DbClosedError, Rdict, WriteBatch

from bridgehead.columns.batches import Batch, weight
from bridgehead.errors import DamageError, StartError, StorageError
from bridgehead.storage.engine import Changes, Shape, Shelf, keep_state, states_under
from bridgehead.storage.keys import Kind, number_of, numbered_key, shelf_key, shelf_of
from bridgehead.storage.lock import StoreLock
from bridgehead.storage.losses import Losses
from bridgehead.storage.meta import incarnation_of
from bridgehead.storage.opening import allow_compaction, open_sound
from bridgehead.storage.salvage import finish, salvage
from bridgehead.storage.scanning import inspect, scan
from bridgehead.storage.syncing import Syncing
from bridgehead.storage.tidying import Tidying
from bridgehead.storage.values import (
    Loose,
    pack_batch,
    pack_note,
    pack_shape,
    pack_state,
    unpack_batch,
    unpack_note,
    unpack_shape,
    unpack_state,
    with_holes,
)

log = logging.getLogger(__name__)

CACHE_BYTES: Final = 64 << 20
"""Batches kept decoded: most are read once, right after they were written."""
PIECE_BYTES: Final = 1 << 20
"""A write with more than this puts its batches down one by one before the atomic write."""


class RocksEngine:
    """Implements Engine in a directory that it owns while it is open. ``sync=False``: the page cache is safe enough."""

    durable = True

    def __init__(self, directory: Path, *, sync: bool = True) -> None:
        self._directory = directory
        self._lock = StoreLock(directory)
        try:
            self._db, self.incarnation = _open(directory)
            self._state: dict[Shelf, Any] = {shelf_of(k): unpack_state(k, v) for k, v in scan(self._db, Kind.STATE.value)}
        except BaseException:
            self._lock.release()
            raise
        self.losses = Losses(self._state)
        self._sync = sync
        self._loose: dict[tuple[Shelf, int], Loose] = {}
        self._cache: OrderedDict[tuple[Shelf, int], tuple[Batch, int]] = OrderedDict()
        self._cached = 0  # bytes in the cache
        self._later: dict[Shelf, Any] = {}
        self._syncing = Syncing(lambda: self._flush(), self._failed)
        self._tidying = Tidying(self._db)
        self._closed = False
        self._broken = False  # the disk has failed us once
        self.on_failure: Callable[[BaseException], None] = lambda error: None  # nothing is promised from now on

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        if self._broken:
            raise StorageError("storage has failed: nothing is written any more")
        final = WriteBatch(raw_mode=True)
        ahead: list[tuple[bytes, bytes]] = []
        replaced = bool(changes.drops)  # a merge: its batch takes the place of another one, so both change at once
        for shelf, number, batch in changes.puts:
            for key, value in self._put(shelf, number, batch):
                if key.startswith(Kind.BATCH.value) and not replaced:
                    ahead.append((key, value))
                else:
                    final.put(key, value)
        for shelf, number in changes.drops:
            self._drop(final, shelf, number)
        for shelf, state in changes.state.items():
            if state is None:
                final.delete(shelf_key(Kind.STATE, shelf))
                self._later.pop(shelf, None)
            else:
                key = shelf_key(Kind.STATE, shelf)
                final.put(key, pack_state(key, state))
        for shelf, number, note in changes.notes:
            key = numbered_key(Kind.NOTE, shelf, number)
            if note is None:
                final.delete(key)
            else:
                final.put(key, pack_note(key, note))
        keep_state(self._state, changes)
        self._later.update(changes.later)
        if ahead or not final.is_empty():
            self._commit(ahead, final)
        for each in changes.when_safe:
            self.when_synced(each)

    def _commit(self, ahead: list[tuple[bytes, bytes]], final: WriteBatch) -> None:
        for shelf, state in self._later.items():
            name = shelf_key(Kind.STATE, shelf)
            final.put(name, pack_state(name, state))
        large = sum(len(value) for _, value in ahead) > PIECE_BYTES
        try:
            for key, value in ahead:
                if large:
                    self._db[key] = value
                else:
                    final.put(key, value)
            self._db.write(final)
        except Exception as error:
            self._failed(error)
            raise StorageError(str(error)) from error
        self._later.clear()
        self._syncing.wrote()
        if not self._sync:
            self._syncing.all_safe()
        self._tidying.tidy_if_worth_it()

    def _put(self, shelf: Shelf, number: int, batch: Batch) -> Iterator[tuple[bytes, bytes]]:
        """What goes to the disk for a batch: nothing if all its rows are of QoS 0."""
        name = (shelf, number)
        self._loose.pop(name, None)
        present = batch.column("qos").to_numpy(zero_copy_only=False) > 0
        stored, holes = batch, None
        if not present.any():
            self._loose[name] = Loose(batch, None)
            return
        if not present.all():
            stored, holes = batch.filter(pa.array(present)), present
            self._loose[name] = Loose(batch.filter(pa.array(~present)), present)
        size = weight(stored)
        self._keep(name, batch, size)
        self._tidying.stored(name, size)
        key, entry = numbered_key(Kind.BATCH, shelf, number), numbered_key(Kind.INDEX, shelf, number)
        yield key, pack_batch(key, stored, holes)
        yield entry, pack_shape(entry, Shape(batch.num_rows, size, holes))

    def _drop(self, final: WriteBatch, shelf: Shelf, number: int) -> None:
        name = (shelf, number)
        self._forget(name)
        loose = self._loose.pop(name, None)
        if loose is None or loose.present is not None:
            final.delete(numbered_key(Kind.BATCH, shelf, number))
            final.delete(numbered_key(Kind.INDEX, shelf, number))
            self._tidying.deleted(name)

    def give_back(self) -> None:
        if not self._closed and not self._broken:
            self._tidying.tidy_now()

    # -- syncing ------------------------------------------------------------------------------------------------------

    def when_synced(self, callback: Callable[[], None]) -> None:
        self._syncing.when_safe(callback)

    def _flush(self) -> None:
        self._db.flush_wal(True)

    def between_syncs(self, callback: Callable[[], None]) -> None:
        self._syncing.between(callback)

    def _failed(self, error: BaseException) -> None:
        log.critical("storage failed, nothing is acknowledged from now on: %s", error)
        self._syncing.stop()
        self._closed = self._broken = True
        self.on_failure(error)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, shelf: Shelf, number: int) -> Batch:
        name = (shelf, number)
        cached = self._cache.get(name)
        if cached is not None:
            self._cache.move_to_end(name)
            return cached[0]
        loose = self._loose.get(name)
        if loose is not None and loose.present is None:
            return loose.batch
        key = numbered_key(Kind.BATCH, shelf, number)
        try:
            value = self._db.get(key)
            if value is None:
                raise KeyError(name)
            stored = unpack_batch(key, value, f"batch {number} of {shelf}")
        except KeyError:
            raise
        except Exception as error:  # it was sound when we started: the next start finds out what is left
            self._failed(error)
            raise StorageError(f"batch {number} of {shelf} cannot be read: {error}") from error
        if loose is not None:
            batch = loose.joined(stored)
        else:
            shape = self._shape(shelf, number)
            batch = stored if shape.present is None else with_holes(stored, shape.present)
        self._keep(name, batch, weight(batch))
        return batch

    def _shape(self, shelf: Shelf, number: int) -> Shape:
        key = numbered_key(Kind.INDEX, shelf, number)
        return unpack_shape(key, self._db.get(key), f"index entry {number} of {shelf}")

    def _keep(self, name: tuple[Shelf, int], batch: Batch, size: int) -> None:
        self._forget(name)
        self._cache[name] = (batch, size)
        self._cached += size
        while self._cached > CACHE_BYTES:
            _, (_, freed) = self._cache.popitem(last=False)
            self._cached -= freed

    def _forget(self, name: tuple[Shelf, int]) -> None:
        cached = self._cache.pop(name, None)
        if cached is not None:
            self._cached -= cached[1]

    def numbers(self, shelf: Shelf) -> Iterator[int]:
        loose = {number for where, number in self._loose if where == shelf}
        return iter(sorted(loose.union(number_of(key) for key, _ in scan(self._db, shelf_key(Kind.INDEX, shelf)))))

    def shapes(self, shelf: Shelf) -> Iterator[tuple[int, Shape]]:
        for key, value in scan(self._db, shelf_key(Kind.INDEX, shelf)):
            shape = unpack_shape(key, value, f"an index entry of {shelf}")
            self._tidying.stored((shelf, number_of(key)), shape.weight)
            yield number_of(key), shape

    def state(self, shelf: Shelf) -> Any:
        return self._state.get(shelf)

    def states(self, prefix: Shelf) -> Iterator[tuple[Shelf, Any]]:
        return states_under(self._state, prefix)

    def notes(self, shelf: Shelf) -> Iterator[tuple[int, int]]:
        for key, value in scan(self._db, shelf_key(Kind.NOTE, shelf)):
            yield number_of(key), unpack_note(key, value)

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """A directory with the store as it is now, while the block runs; costs no copy, and may be used in any thread."""
        moment = self._directory.with_name(f"{self._directory.name}.checkpoint")
        shutil.rmtree(moment, ignore_errors=True)
        try:
            try:
                Checkpoint(self._db).create_checkpoint(str(moment))
            except Exception as error:  # no room, or closed meanwhile
                raise StorageError(f"no checkpoint could be made: {error}") from error
            yield moment
        finally:
            shutil.rmtree(moment, ignore_errors=True)

    def close(self) -> None:
        """Everything written is safe when this returns; whoever still waits is not told."""
        self._closed = True
        self._syncing.close()
        self._tidying.close()
        try:
            if not self._broken:
                self._db.flush_wal(True)
        except DbClosedError:
            return
        except Exception as error:
            raise StorageError(str(error)) from error
        finally:
            self._let_go()

    def _let_go(self) -> None:
        try:
            self._db.close()
        except Exception as error:  # it wanted to make a table of what the log has: the next start will
            log.info("the store was closed with its log: %s", error)
        self._lock.release()


def _open(directory: Path) -> tuple[Rdict, str]:
    """The store and its incarnation, every value read once; a damaged one is made sound first."""
    finish(directory)
    found = _look(directory)
    if isinstance(found, _Damage):  # only now: an error on its way still holds what it met, and RocksDB's lock with it
        salvage(directory, found.why, unknown=found.unknown)
        found = _look(directory)
        if isinstance(found, _Damage):
            raise StartError(f"{directory} was repaired and is damaged again: {found.why}")
    return found


@dataclass(frozen=True, slots=True)
class _Damage:
    why: str
    unknown: bool  # what is there cannot tell what is missing


def _look(directory: Path) -> tuple[Rdict, str] | _Damage:
    try:
        db = open_sound(directory)
    except DamageError as error:
        return _Damage(str(error), unknown=True)
    try:
        return db, _inspected(db, directory)
    except DamageError as error:
        db.close()
        return _Damage(str(error), unknown=False)
    except BaseException:
        db.close()
        raise


def _inspected(db: Rdict, directory: Path) -> str:
    incarnation = incarnation_of(db, directory)
    orphans = WriteBatch(raw_mode=True)
    for key in inspect(db):
        orphans.delete(key)
    db.write(orphans)
    allow_compaction(db)
    return incarnation
