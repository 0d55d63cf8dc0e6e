"""The front log: what was written last, in two files that are written over and over.

Most messages are gone a moment after they came. Here they cost one write into a file whose blocks the disk has already given
out, so that a sync changes nothing but their content. What is still there when a file is full moves to RocksDB, and only that.

A sync covers everything up to a point, in the order written. What was not synced may be there in parts after a loss of power;
a record that cannot be read was promised to somebody if a later one says that it was synced: then it is damage, else the end.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rocksdict import Rdict, WriteBatch

from bridgehead.errors import DamageError
from bridgehead.storage import records
from bridgehead.storage.diskpath import sync
from bridgehead.storage.keys import Kind
from bridgehead.storage.meta import FRONT_KEY, pack_front
from bridgehead.storage.records import Change, Held, Kept, Record, Ruin
from bridgehead.storage.syncthread import SyncThread
from bridgehead.storage.values import is_sound

FILE_BYTES: Final = 64 << 20
"""A file that has grown so long gives way to the other one. What Spark needs some tenths of a second for is gone before."""

_CLOSING: Final[Change] = (FRONT_KEY, None)
"""The only change of the last record after a clean end: RocksDB has everything."""

REPLAYED_AT_ONCE: Final = 1 << 20
"""Bytes of records that RocksDB is given in one piece."""

_OPENING: Final[Sequence[Change]] = ()
"""The first record of a life changes nothing. It is synced before anybody is told of this life: it must be there."""


class FrontLog:
    """Used from the event loop."""

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES) -> None:
        self.life = secrets.randbits(63)
        self.written = 0
        """The number of the last record."""
        self.safe = 0
        """That of the last one which is known to be synced."""
        self._directory = directory
        self._file_bytes = file_bytes
        self._files: list[int] = []
        self._active = 0
        self._position = 0
        self._said = 0  # what the last record says of ``safe``
        self._dirty: list[int] = []  # files with something that no sync has covered, the older first
        self._thread = SyncThread()
        self.flushed: Final = self._thread.answered
        """A descriptor that is readable when what was begun has ended."""
        self._covered: int | None = None  # the last record before the sync that is under way
        self._fault: OSError | None = None
        self._open()
        self.append(_OPENING)
        self.flush()

    def _open(self) -> None:
        path = paths(self._directory, self.life)[len(self._files)]
        self._files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
        sync(self._directory)

    def append(self, changes: Sequence[Change]) -> tuple[int, list[tuple[bytes, Held | None]]]:
        """Hand a record to the kernel; its size, and what to remember of it. OSError: nothing can be promised any more."""
        self._must_be_sound()
        number = self.written + 1
        pieces, size, starts = records.pack(self.life, number, self.safe, changes)
        file = self._files[self._active]
        done = os.pwritev(file, pieces, self._position)
        if done < size:
            _write_all(file, b"".join(pieces)[done:], self._position + done)
        held = [
            (key, Kept(self._active, self._position + start, tuple(map(len, value))) if isinstance(value, tuple) else value)
            for (key, value), start in zip(changes, starts, strict=True)
        ]  # a batch is read again from the log if somebody asks for it: most are gone before that
        self._position += size
        if self._dirty[-1:] != [file]:
            self._dirty.append(file)
        self.written, self._said = number, self.safe
        return size, held

    def read(self, kept: Kept) -> bytes:
        """A batch that was written since its file was last begun."""
        data, size = b"", sum(kept.sizes)
        if not self._files:
            raise OSError(errno.EBADF, "the front log is closed")
        while len(data) < size:
            more = os.pread(self._files[kept.file], size - len(data), kept.position + len(data))
            if not more:
                raise OSError(errno.EIO, "the front log has lost its end")
            data += more
        return data

    def begin_flush(self) -> None:
        """Begin to make everything written so far safe; ``flushed`` says when it is time for ``end_flush``."""
        self._must_be_sound()
        assert self._covered is None
        self._thread.begin(self._dirty)
        self._covered, self._dirty = self.written, []

    def end_flush(self) -> None:
        """What was begun has ended."""
        self._await_flush()
        self._thread.heard()
        self._must_be_sound()

    def flush(self) -> None:
        """Make everything written so far safe, and wait for it."""
        self._await_flush()
        self._must_be_sound()
        try:
            for file in self._dirty:
                os.fdatasync(file)
        except OSError as error:
            self._fault = error
            raise
        self._dirty.clear()
        self.safe = self.written

    def _await_flush(self) -> None:
        """Two syncs of one file at once: only one of them would hear of an error."""
        if self._covered is not None:
            self._fault = self._thread.wait()
            if self._fault is None:
                self.safe = self._covered
            self._covered = None

    def _must_be_sound(self) -> None:
        """After a sync that failed another one may succeed, without what the first has lost."""
        if self._fault is not None:
            raise OSError(self._fault.errno, f"a sync has failed: {self._fault.strerror}")

    def take_for_safe(self) -> None:
        """Whoever asked for no syncs: what the kernel has is safe enough."""
        self.safe = self.written
        self._dirty.clear()

    def say_what_is_safe(self) -> None:
        """Nobody writes any more: without another record damage to the last ones would look like the end."""
        if self._said < self.safe and self.safe == self.written:
            self.append(_OPENING)

    @property
    def is_half_full(self) -> bool:
        return 2 * self._position >= self._file_bytes

    @property
    def is_full(self) -> bool:
        return self._position >= self._file_bytes

    @property
    def is_overfull(self) -> bool:
        """Nobody has synced for long."""
        return self._position >= 2 * self._file_bytes

    def switch(self) -> int:
        """Go on in the other file, of which nothing is needed any more. Returns the number of the first record there."""
        if len(self._files) == 1:
            self._open()
        self._active = 1 - self._active
        self._position = 0
        if os.fstat(self._files[self._active]).st_size > self._file_bytes:
            os.ftruncate(self._files[self._active], self._file_bytes)
        return self.written + 1

    def end(self) -> None:
        """Nothing in it is needed any more, whatever becomes of its files."""
        self.append([_CLOSING])
        self.flush()

    def remove(self) -> None:
        """The file that says that this is the end goes last: without it the other one would look like what is left of a log."""
        both = paths(self._directory, self.life)
        for path in (both[1 - self._active], both[self._active]):
            path.unlink(missing_ok=True)
            sync(self._directory)

    def close(self) -> None:
        self._await_flush()
        self._thread.close()
        while self._files:
            os.close(self._files.pop())


def paths(directory: Path, life: int) -> list[Path]:
    return [directory / f"front-{life:016x}-{index}" for index in range(2)]


def lives(directory: Path) -> list[int]:
    """Those that have left files here, the latest last."""
    files = sorted(directory.glob("front-*"), key=lambda path: path.stat().st_mtime_ns)
    return list(dict.fromkeys(life_of(path.name) for path in files))


def life_of(name: str) -> int:
    return int(name.split("-")[1], 16)


def remove_others(directory: Path, life: int) -> None:
    """Take away what other lives have left."""
    for path in directory.glob("front-*"):
        if path not in paths(directory, life):
            path.unlink()
    sync(directory)


def left(directory: Path, place: tuple[int, int] | None) -> list[Record]:
    """What the log holds and RocksDB may not have, in its order; ``place`` is the life and the first record that RocksDB names.

    DamageError: something that was synced is missing. What follows a record that is not there had not been synced either, if no
    other one says that this one was.
    """
    if place is None:
        _must_be_closed(directory)
        return []
    there, promised = _whole(directory, place)
    first = end = place[1]
    while end in there:
        end += 1
    if end in promised:
        raise DamageError(f"record {end} of the front log is missing" if there else "the front log is missing")
    return [there[number] for number in range(first, end)]


def _must_be_closed(directory: Path) -> None:
    """RocksDB names no log, as before the first start and after a clean end: then none is there, or nothing in it counts."""
    for life in lives(directory):
        found = sorted(_found(directory, life), key=lambda record: record.number)
        unread = not found and any(path.stat().st_size > records.SMALLEST for path in paths(directory, life) if path.exists())
        closed = found and list(found[-1].changes()) == [_CLOSING]
        if unread or (not closed and any(record.body for record in found)):
            raise DamageError("there is a front log, and nothing says where it begins")


def read_past_damage(directory: Path, place: tuple[int, int] | None) -> Iterator[Record | Ruin]:
    """Everything that can be read and RocksDB may not have, in its order.

    Of a record that is damaged and was promised to somebody, that is what stands by itself. Where RocksDB cannot name the place
    any more: of each life, what reaches to its end without a gap. Replayed in its order that changes nothing of what RocksDB
    has; older records without those behind them would bring back what is gone.
    """
    if place is not None and any(path.exists() for path in paths(directory, place[0])):
        there, promised = _whole(directory, place)
        both: dict[int, Record | Ruin] = {**there, **_ruins(directory, place[0], set(promised) - there.keys())}
        yield from (both[number] for number in sorted(both))
        return
    for life in lives(directory):
        found = {record.number: record for record in _found(directory, life)}
        first = max(found, default=0)
        while first - 1 in found:
            first -= 1
        yield from (found[number] for number in range(first, max(found, default=-1) + 1))


def tells_what_is_lost(directory: Path, place: tuple[int, int] | None) -> bool:
    """Whether all that is missing of the log are batches whose index entries are there: these say which rows they held."""
    if place is None:
        return False
    there, promised = _whole(directory, place)
    missing = set(promised) - there.keys()
    ruins = _ruins(directory, place[0], missing)
    return ruins.keys() == missing and all(
        ruin.exact and all(_has_entry(ruin, key) for key in ruin.unsound) for ruin in ruins.values()
    )


def _has_entry(ruin: Ruin, key: bytes) -> bool:
    entry = Kind.INDEX.value + key[len(Kind.BATCH.value) :]
    return key.startswith(Kind.BATCH.value) and any(each == entry for each, _ in ruin.sound)


def _whole(directory: Path, place: tuple[int, int]) -> tuple[dict[int, Record], range]:
    """The records from a place on that are as they were written, and the numbers of all that were promised to somebody.

    The first one was: RocksDB names it only when it is safe.
    """
    life, first = place
    there = {record.number: record for record in _found(directory, life) if record.number >= first}
    return there, range(first, max((first, *(record.safe for record in there.values()))) + 1)


def _ruins(directory: Path, life: int, missing: set[int]) -> dict[int, Ruin]:
    """Those of these records of which something is there."""
    found = (ruin for path in _there(directory, life) for ruin in records.find_ruins(path.read_bytes(), life, is_sound))
    return {ruin.number: ruin for ruin in found if ruin.number in missing}


def sync_files(directory: Path, life: int) -> None:
    """What a kill has left in the kernel must not be on the disk by half when RocksDB has it."""
    for path in paths(directory, life):
        if path.exists():
            sync(path)


def replay(db: Rdict, written: Iterable[Record | Ruin], life: int | None = None) -> None:
    """Let RocksDB have these records, but for batches that are gone or replaced in a later one: they only take room.

    Each piece says how far it has come in the log of this ``life``: a start that ends here for want of room has not taken that
    room for nothing, the next one goes on behind it.
    """
    records = list(written)
    last = {key: at for at, record in enumerate(records) for key in record.changed() if key.startswith(Kind.BATCH.value)}
    batch, size = WriteBatch(raw_mode=True), 0
    for at, record in enumerate(records):
        for key, value in record.changes():
            if value is None:
                batch.delete(key)
            elif last.get(key, at) == at:
                batch.put(key, value)
                size += len(value)
        if size > REPLAYED_AT_ONCE:
            if life is not None:
                batch.put(FRONT_KEY, pack_front(life, record.number))
            db.write(batch)
            batch, size = WriteBatch(raw_mode=True), 0
    db.write(batch)
    db.flush_wal(True)


def _found(directory: Path, life: int) -> Iterator[Record]:
    for path in _there(directory, life):
        yield from records.find(path.read_bytes(), life)


def _there(directory: Path, life: int) -> list[Path]:
    return [path for path in paths(directory, life) if path.exists()]


def _write_all(file: int, data: bytes, position: int) -> None:
    while data:
        done = os.pwrite(file, data, position)
        data, position = data[done:], position + done
