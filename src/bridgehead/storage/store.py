"""A map of keys in a directory, changed by atomic writes: the front log for what comes, RocksDB for what stays.

A write is there after a kill as soon as it is made, and after a loss of power as soon as it is flushed. What the front log
holds is replayed into RocksDB at a start, all of it in its order: what had moved there before is only written once more.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rocksdict import Checkpoint, Rdict, WriteBatch

from bridgehead.errors import DamageError, StartError, StorageError
from bridgehead.storage import frontlog
from bridgehead.storage.frontlog import FILE_BYTES, FrontLog
from bridgehead.storage.keys import Kind
from bridgehead.storage.meta import FRONT_KEY, front_of, incarnation_of, must_know_format, pack_front
from bridgehead.storage.opening import LOGS_AT_ONCE, allow_compaction, merged_at_once, open_sound
from bridgehead.storage.overlay import Overlay
from bridgehead.storage.records import Change, Kept
from bridgehead.storage.salvage import finish, salvage
from bridgehead.storage.scanning import inspect
from bridgehead.storage.tidying import Tidying
from bridgehead.storage.values import squeezed

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
"""RocksDB holds the interpreter while it writes: what is large moves in pieces, and others have their turn between them."""
MOVED_AT_LEAST: Final = 128 << 10
MOVED_FOR_EACH: Final = 4
"""Bytes that a write owes RocksDB: so many, or so many times what was written. That begins when the other file is half full,
for most of what is young now is gone by then; and the old file is free before the other one is full. A write pays a piece of
it at once, the rest is paid between turns of the loop (``pay``)."""


class _Other(Enum):
    """The file of the front log that is not written to."""

    FREE = "nothing in it is needed"
    MOVING = "what it holds moves to RocksDB"
    MOVED = "RocksDB has all of it, not synced yet"


class Store:
    """Used from the event loop. ``sync=False``: what the kernel has is safe enough."""

    def __init__(self, directory: Path, *, sync: bool = True, front_bytes: int = FILE_BYTES) -> None:
        self._directory = directory
        self._sync = sync
        self.db, self.incarnation = _open(directory)
        self._first = 1  # the record with which the file begins that is written to
        self._other = _Other.FREE
        self._owed = 0  # bytes that should have moved to RocksDB by now, for what was written
        self._stands_in = 0  # up to this record there are changes without which something older would count again
        self._thread = ThreadPoolExecutor(1, "storage-move")
        self._moved: Future[None] | None = None  # the sync of what has moved to RocksDB
        self.tidying = Tidying(self.db, self._tell_what_is_gone)
        try:
            self._front = FrontLog(directory, front_bytes)
            self._overlay = Overlay(self._front.read)
            self.db[FRONT_KEY] = pack_front(self._front.life, self._first)
            self.db.flush_wal(True)
            self.flushed: Final = self._front.flushed
            """A descriptor that is readable when a flush that was begun has ended."""
            frontlog.remove_others(directory, self._front.life)
        except Exception as error:
            _let_go(self.db)
            raise StartError(f"{directory} cannot be written to: {error}") from None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> None:
        """All of them happen, or nothing. Whatever this raises, nothing can be promised any more."""
        if self._moved is not None and self._moved.done():
            self._free()
        if self._front.is_full and self._other is _Other.FREE:
            self._move_all()  # nothing, but after a settling that has failed
            self._first = self._front.switch()
            self._overlay.change_files()
            self._other = _Other.MOVING
        size, held = self._front.append(changes)
        self._overlay.put(held)
        if not self._sync:
            self._front.take_for_safe()
        elif self._front.is_overfull:  # whoever writes so much and never asks whether it is safe waits here
            self.flush()
        if self._other is _Other.MOVING and self._front.is_half_full:
            self._owed += max(MOVED_FOR_EACH * size, MOVED_AT_LEAST)
            self._move(self._owed if self._front.is_full else min(self._owed, PIECE_BYTES))
        self.tidying.tidy_if_worth_it()

    @property
    def owes(self) -> bool:
        """Whether more should move to RocksDB than a write may keep the loop for: it is time to ``pay``."""
        return self._owed > 0

    def pay(self) -> bool:
        """Move a piece of it. True: it is worth asking again; otherwise all has moved, or waits for what comes next."""
        before = self._owed
        if not before:  # a write has paid it since this was asked for
            return False
        self._move(min(before, PIECE_BYTES))
        return 0 < self._owed < before

    def begin_flush(self) -> None:
        """Everything written so far survives a loss of power when ``end_flush`` returns; ``flushed`` says that it is time."""
        self._front.begin_flush()

    def end_flush(self) -> None:
        self._front.end_flush()

    def flush(self) -> None:
        """Everything written so far survives a loss of power from now on."""
        self._front.flush()
        if self._moved is not None:
            self._free()

    def _free(self) -> None:
        """RocksDB has made safe what has moved to it, as soon as it has: the file where it was is free."""
        assert self._moved is not None
        self._moved.result()
        self._moved = None
        self._let_file_go()

    def _let_file_go(self) -> None:
        self._other = _Other.FREE
        self._overlay.free_file()

    def say_what_is_safe(self) -> None:
        """Nothing depends on it but what damage would be taken for."""
        try:
            self._front.say_what_is_safe()
        except OSError as error:
            log.info("the front log could not be told what is safe: %s", error)

    def settle(self) -> None:
        """RocksDB has everything that was written so far."""
        if self._sync:
            self.flush()
        self._move_all()
        self._overlay.age()
        self._move_all()

    def _move_all(self) -> None:
        while self._overlay.is_moving:
            self._put_down(PIECE_BYTES)

    def _move(self, size: int) -> None:
        """Nothing moves that is not safe here, and the old file is needed no more only when all is safe that stands for it: the
        first record of the other file, and whatever there has replaced something of the old one.
        """
        if self._front.safe < self._first - 1:
            return
        self._put_down(size)
        if not self._overlay.is_moving and self._front.safe >= max(self._first, self._stands_in):
            self.db[FRONT_KEY] = pack_front(self._front.life, self._first)
            if self._sync:
                self._other = _Other.MOVED
                self._moved = self._thread.submit(self.db.flush_wal, True)
            else:
                self._let_file_go()

    def _put_down(self, size: int) -> None:
        batch, count = WriteBatch(raw_mode=True), 0
        for key, value, replaced in self._overlay.next(size):
            count += 1
            if replaced:
                self._stands_in = self._front.written
            elif value is None:
                batch.delete(key)
            else:
                stored = squeezed(key, self._front.read(value), value.sizes) if isinstance(value, Kept) else value
                batch.put(key, stored)
                if key.startswith(Kind.BATCH.value):
                    self.tidying.stored(key, len(stored))
        self.db.write(batch)
        moved = self._overlay.moved(count)
        self._owed = max(self._owed - moved, 0) if self._overlay.is_moving else 0

    def _tell_what_is_gone(self) -> None:
        """RocksDB knows of every deletion, and may give its room back. What is to stay moves when it is its turn."""
        if self._sync:
            self._front.flush()
        batch = WriteBatch(raw_mode=True)
        for key in self._overlay.gone():
            batch.delete(key)
        self.db.write(batch)

    @property
    def spoken_for(self) -> int:
        """Bytes of the disk that the store may still take for what it has.

        What the front log holds goes through RocksDB's log into tables, piece by piece or at the next start, and so does what
        RocksDB has in RAM; and tables are merged into new ones before the old ones go.
        """
        to_replay = self._overlay.to_replay
        in_logs = min(to_replay, LOGS_AT_ONCE) + self.db.property_int_value("rocksdb.cur-size-all-mem-tables")
        return int(to_replay + in_logs + merged_at_once(self.db, to_replay))

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        return self._overlay.get(self.db, key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._overlay.scan(self.db, prefix)

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """A directory with the store as it is now, while the block runs; made without a copy, and not changed any more."""
        moment = self._directory.with_name(f"{self._directory.name}.checkpoint")
        shutil.rmtree(moment, ignore_errors=True)
        try:
            try:
                self.settle()
                Checkpoint(self.db).create_checkpoint(str(moment))
            except Exception as error:  # no room, or closed meanwhile
                raise StorageError(f"no checkpoint could be made: {error}") from error
            yield moment
        finally:
            shutil.rmtree(moment, ignore_errors=True)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, *, broken: bool) -> None:
        """Everything is in RocksDB and synced when this returns; of a store that is broken it stays where it is."""
        try:
            if not broken:
                self.settle()
                self.db.flush_wal(True)
                self._front.end()
                del self.db[FRONT_KEY]
                self.db.flush_wal(True)
                self._front.remove()
        finally:
            self.tidying.close()
            self._thread.shutdown()
            self._front.close()
            _let_go(self.db)


def _let_go(db: Rdict) -> None:
    """Close it, whatever becomes of the table that it wants to make of its log: without room the next start makes it."""
    try:
        db.close()
    except Exception as error:
        log.info("the store was closed with its log: %s", error)


def _open(directory: Path) -> tuple[Rdict, str]:
    """The store and its incarnation, every value read once; a damaged one is made sound first."""
    finish(directory)
    found = _look(directory)
    if isinstance(found, _Damage):  # only now: an error on its way still holds what it met, and RocksDB's lock with it
        salvage(directory, found.why, unknown=found.unknown, in_front=found.in_front)
        found = _look(directory)
        if isinstance(found, _Damage):
            raise StartError(f"{directory} was repaired and is damaged again: {found.why}")
    return found


@dataclass(frozen=True, slots=True)
class _Damage:
    why: str
    unknown: bool  # what is there cannot tell what is missing
    in_front: bool = False  # it is a part of the front log


def _look(directory: Path) -> tuple[Rdict, str] | _Damage:
    try:
        db = open_sound(directory)
    except DamageError as error:
        return _Damage(str(error), unknown=True)
    try:
        damage = _replayed(db, directory)
        if damage is None:
            incarnation = incarnation_of(db, directory)
            inspect(db)
            allow_compaction(db)
            return db, incarnation
    except DamageError as error:
        damage = _Damage(str(error), unknown=False)
    except (StartError, StorageError):
        _let_go(db)
        raise
    except Exception as error:
        _let_go(db)
        raise StartError(f"{directory} cannot be opened: {error}") from None
    _let_go(db)
    return damage


def _replayed(db: Rdict, directory: Path) -> _Damage | None:
    """Let RocksDB have all of the front log; if something of it is missing, nothing is changed."""
    must_know_format(db, directory)
    try:
        place = front_of(db)
        written = frontlog.left(directory, place)
    except DamageError as error:
        return _Damage(str(error), unknown=True, in_front=True)
    if place is not None:
        frontlog.sync_files(directory, place[0])
        frontlog.replay(db, written, place[0])
    return None
