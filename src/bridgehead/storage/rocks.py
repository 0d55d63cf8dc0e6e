"""The file-native engine: on RocksDB, through rocksdict. What is synced survives a kill of the node and a loss of power.

Writes are made without a sync and synced in groups (``Syncing``). The keys are kept by ``Store``: what comes goes through a log
of our own, and only what stays reaches RocksDB.

Layout, by kind of key: a batch; its index entry (rows, weight, holes), which makes it count; notes; states; and the format
with the incarnation. What is synced is everything up to a point, in the order written.

Rows of QoS 0 never come here: they stay in RAM and are joined with the others when a batch is read. After a restart their
places are holes. Only the index and these rows cost RAM; of the batches, the last ones used are kept in a bounded cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rocksdict import DbClosedError

from bridgehead.columns.batches import Batch, durable_rows, weight
from bridgehead.errors import StorageError
from bridgehead.storage.engine import Changes, Shape, Shelf, keep_state, states_under
from bridgehead.storage.frontlog import FILE_BYTES
from bridgehead.storage.keys import Kind, number_of, numbered_key, shelf_key, shelf_of
from bridgehead.storage.lock import StoreLock
from bridgehead.storage.losses import Losses
from bridgehead.storage.records import Change
from bridgehead.storage.scratch import Scratch
from bridgehead.storage.store import Store
from bridgehead.storage.syncing import Syncing, SyncTimes
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


class RocksEngine:
    """Implements Engine in a directory that it owns while it is open. ``sync=False``: the page cache is safe enough."""

    durable = True

    def __init__(self, directory: Path, *, sync: bool = True, front_bytes: int = FILE_BYTES) -> None:
        self._lock = StoreLock(directory)
        try:
            self._store = Store(directory, sync=sync, front_bytes=front_bytes)
            self._state: dict[Shelf, Any] = {shelf_of(k): unpack_state(k, v) for k, v in self._store.scan(Kind.STATE.value)}
        except BaseException:
            self._lock.release()
            raise
        self.incarnation = self._store.incarnation
        self.losses = Losses(self._state)
        self._sync = sync
        self._loose: dict[tuple[Shelf, int], Loose] = {}
        self._cache: OrderedDict[tuple[Shelf, int], tuple[Batch, int]] = OrderedDict()
        self._cached = 0  # bytes in the cache
        self._later: dict[Shelf, Any] = {}
        self._paying: asyncio.Handle | None = None  # the next piece of what moves to RocksDB
        self._scratch = Scratch()  # where batches are packed
        self._syncing = Syncing(self._store, self._failed, self._store.say_what_is_safe)
        self._closed = False
        self._broken = False  # the disk has failed us once
        self.on_failure: Callable[[BaseException], None] = lambda error: None  # nothing is promised from now on

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        if self._broken:
            raise StorageError("storage has failed: nothing is written any more")
        final: list[Change] = []
        self._scratch.clear()
        for shelf, number, batch in changes.puts:
            final += self._put(shelf, number, batch)
        for shelf, number in changes.drops:
            final += self._drop(shelf, number)
        for shelf, state in changes.state.items():
            final.append(_changed_state(shelf, state))
            if state is None:
                self._later.pop(shelf, None)
        for shelf, number, note in changes.notes:
            key = numbered_key(Kind.NOTE, shelf, number)
            final.append((key, None if note is None else pack_note(key, note)))
        keep_state(self._state, changes)
        self._later.update(changes.later)
        if final:
            self._commit(final)
        for each in changes.when_safe:
            self.when_synced(each)

    def _commit(self, changes: list[Change]) -> None:
        changes += [_changed_state(shelf, state) for shelf, state in self._later.items()]
        try:
            self._store.write(changes)
        except Exception as error:
            self._failed(error)
            raise StorageError(str(error)) from error
        self._later.clear()
        self._syncing.wrote()
        if not self._sync:
            self._syncing.all_safe()
        if self._store.owes and self._paying is None:
            self._pay_soon()

    def _pay_soon(self) -> None:
        """Whoever has no loop keeps nobody waiting: what is owed is paid with the writes that follow."""
        with suppress(RuntimeError):
            self._paying = asyncio.get_running_loop().call_soon(self._pay)

    def _pay(self) -> None:
        self._paying = None
        if self._closed:
            return
        try:
            more = self._store.pay()
        except Exception as error:
            self._failed(error)
        else:
            if more:
                self._pay_soon()

    def _put(self, shelf: Shelf, number: int, batch: Batch) -> Iterator[Change]:
        """What goes to the disk for a batch: nothing if all its rows are of QoS 0."""
        name = (shelf, number)
        self._loose.pop(name, None)
        stored, holes = batch, None
        durable = durable_rows(batch)
        if not durable:
            self._loose[name] = Loose(batch, None)
            return
        if durable < batch.num_rows:
            present = holes = batch.column("qos").to_numpy(zero_copy_only=False) > 0
            stored = batch.filter(pa.array(present))
            self._loose[name] = Loose(batch.filter(pa.array(~present)), present)
        size = weight(stored)
        self._keep(name, batch, size)
        key, entry = numbered_key(Kind.BATCH, shelf, number), numbered_key(Kind.INDEX, shelf, number)
        yield key, pack_batch(key, stored, holes, self._scratch.take)
        yield entry, pack_shape(entry, Shape(batch.num_rows, size, holes))

    def _drop(self, shelf: Shelf, number: int) -> Iterator[Change]:
        name = (shelf, number)
        self._forget(name)
        loose = self._loose.pop(name, None)
        if loose is None or loose.present is not None:
            key = numbered_key(Kind.BATCH, shelf, number)
            self._store.tidying.deleted(key)
            yield key, None
            yield numbered_key(Kind.INDEX, shelf, number), None

    @property
    def spoken_for(self) -> int:
        return self._store.spoken_for

    def give_back(self) -> None:
        if not self._closed and not self._broken:
            self._store.tidying.tidy_now()

    # -- syncing ------------------------------------------------------------------------------------------------------

    def when_synced(self, callback: Callable[[], None]) -> None:
        self._syncing.when_safe(callback)

    def between_syncs(self, callback: Callable[[], None]) -> None:
        self._syncing.between(callback)

    def while_syncing(self, callback: Callable[[], None]) -> None:
        if self._sync:
            self._syncing.during(callback)
        else:
            callback()

    @property
    def sync_times(self) -> SyncTimes:
        return self._syncing.times

    def hurry_sync(self) -> None:
        self._syncing.hurry()

    def _failed(self, error: BaseException) -> None:
        if self._broken:
            return  # somebody has been told already
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
            value = self._store.get(key)
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
        return unpack_shape(key, self._store.get(key) or b"", f"index entry {number} of {shelf}")

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
        return iter(sorted(loose.union(number_of(key) for key, _ in self._store.scan(shelf_key(Kind.INDEX, shelf)))))

    def shapes(self, shelf: Shelf) -> Iterator[tuple[int, Shape]]:
        for key, value in self._store.scan(shelf_key(Kind.INDEX, shelf)):
            shape = unpack_shape(key, value, f"an index entry of {shelf}")
            self._store.tidying.stored(numbered_key(Kind.BATCH, shelf, number_of(key)), shape.weight)
            yield number_of(key), shape

    def state(self, shelf: Shelf) -> Any:
        return self._state.get(shelf)

    def states(self, prefix: Shelf) -> Iterator[tuple[Shelf, Any]]:
        return states_under(self._state, prefix)

    def notes(self, shelf: Shelf) -> Iterator[tuple[int, int]]:
        for key, value in self._store.scan(shelf_key(Kind.NOTE, shelf)):
            yield number_of(key), unpack_note(key, value)

    def checkpoint(self) -> AbstractContextManager[Path]:
        """A directory with the store as it is now, while the block runs; made without a copy, and not changed any more."""
        return self._store.checkpoint()

    def close(self) -> None:
        """Everything written is safe when this returns; whoever still waits is not told."""
        self._closed = True
        self._syncing.close()
        try:
            self._store.close(broken=self._broken)
        except DbClosedError:
            return
        except Exception as error:
            raise StorageError(str(error)) from error
        finally:
            self._lock.release()


def _changed_state(shelf: Shelf, state: Any) -> Change:
    key = shelf_key(Kind.STATE, shelf)
    return key, None if state is None else pack_state(key, state)
