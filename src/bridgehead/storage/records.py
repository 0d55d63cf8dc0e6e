"""Records of the front log: changes of keys that happen together, behind a checksum, found again behind a damaged place.

A record says which one it is and up to which one everything was synced when it was written. So of a record that cannot be
read it is known whether it had been promised to somebody: if a later one says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from bridgehead.storage.lean import Body

Packed = tuple[bytes, bytes, Body, bytes]
"""A batch in parts: checksum, head, body and end. Whoever makes one piece of them copies them."""
Value = bytes | Packed
"""What a key leads to."""
Change = tuple[bytes, Value | None]
"""A key and its new value; None takes it away."""


class Kept(NamedTuple):
    """A batch that only the log holds, and where: which of its files, from where on, and the bytes of its four parts."""

    file: int
    position: int
    sizes: tuple[int, ...]


Held = bytes | Kept
"""What is remembered of a value that was written."""


_HEAD = struct.Struct("<8sIIQQ")  # the life; checksum of all that follows; bytes behind the head; number; safe
SMALLEST: Final = _HEAD.size
"""Bytes of a record that changes nothing."""
_SIZES = struct.Struct("<II")  # of a key and its value
_CHECKED_FROM: Final = 12
_GONE: Final = 0xFFFF_FFFF
"""In the place of a value's size: the key is taken away."""
_PIECES: Final = 512
"""The kernel takes no more than 1,024 in one call."""


@dataclass(frozen=True, slots=True)
class Record:
    number: int
    safe: int
    """Every record up to this number was synced when this one was written."""
    body: memoryview

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        for key, start, size in self._places():
            yield key, None if size == _GONE else bytes(self.body[start : start + size])

    def changed(self) -> Iterator[bytes]:
        """The keys of its changes."""
        return (key for key, _, _ in self._places())

    def _places(self) -> Iterator[tuple[bytes, int, int]]:
        """Every key, where its value begins, and its bytes."""
        at = 0
        while at < len(self.body):
            key_size, size = _SIZES.unpack_from(self.body, at)
            start = at + _SIZES.size + key_size
            yield bytes(self.body[start - key_size : start]), start, size
            at = start if size == _GONE else start + size


def pack(life: int, number: int, safe: int, changes: Sequence[Change]) -> tuple[list[bytes | Body], int, list[int]]:
    """The pieces of a record, to be written one after the other, their size, and where in it the value of each change begins.

    A record begins with the random number of its life: what others have left is no part of it, and nobody can send a payload
    that looks like one.
    """
    pieces: list[bytes | Body] = []
    small = [b""]  # what stands between two bodies is one piece: each of them costs more than its bytes
    size, starts = 0, []
    for key, value in changes:
        size += _SIZES.size + len(key)
        starts.append(SMALLEST + size)
        if value is None:
            small.append(_SIZES.pack(len(key), _GONE) + key)
        elif isinstance(value, bytes):
            small.append(_SIZES.pack(len(key), len(value)) + key + value)
            size += len(value)
        else:
            checksum, head, body, end = value
            length = len(checksum) + len(head) + len(body) + len(end)
            small.append(_SIZES.pack(len(key), length) + key + checksum + head)
            pieces += (b"".join(small), body)
            small = [end]
            size += length
    pieces.append(b"".join(small))
    crc = crc32(_HEAD.pack(b"", 0, size, number, safe)[_CHECKED_FROM:])
    for piece in pieces:
        crc = crc32(piece, crc)
    pieces[0] = _HEAD.pack(_mark(life), crc, size, number, safe) + pieces[0]
    if len(pieces) > _PIECES:
        pieces = [b"".join(pieces)]
    return pieces, _HEAD.size + size, starts


def find(log: bytes, life: int) -> Iterator[Record]:
    """Every whole record of this life, wherever it stands: behind damage, and what is about to be written over, too."""
    mark, data, position = _mark(life), memoryview(log), 0
    while (position := log.find(mark, position)) >= 0:
        record = _record_at(data, position)
        if record is None:
            position += 1
        else:
            yield record
            position += _HEAD.size + len(record.body)


@dataclass(frozen=True, slots=True)
class Ruin:
    """A record whose checksum does not fit. Its values have checksums of their own: those that are sound still count.

    A key that was taken away has none, and stays: what comes back goes out once more, and is never left out.
    """

    number: int
    body: memoryview
    sound: list[tuple[bytes, bytes]]
    unsound: list[bytes]
    """The keys of the other values."""
    exact: bool
    """Nothing was taken away by it, and it is told from its first byte to its last what it held."""

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        return iter(self.sound)

    def changed(self) -> Iterator[bytes]:
        return (key for key, _ in self.sound)


def find_ruins(log: bytes, life: int, is_sound: Callable[[bytes, bytes], bool]) -> Iterator[Ruin]:
    """Every record of this life that begins somewhere and is damaged."""
    mark, data, position = _mark(life), memoryview(log), 0
    while (position := log.find(mark, position)) >= 0:
        record = _record_at(data, position)
        if record is not None:
            position += _HEAD.size + len(record.body)
            continue
        if position + _HEAD.size <= len(data):
            yield _ruin_at(data, position, is_sound)
        position += 1


def _ruin_at(data: memoryview, position: int, is_sound: Callable[[bytes, bytes], bool]) -> Ruin:
    _, _, size, number, _ = _HEAD.unpack_from(data, position)
    body = data[position + _HEAD.size : position + _HEAD.size + size]
    sound: list[tuple[bytes, bytes]] = []
    unsound: list[bytes] = []
    exact, at = len(body) == size, 0
    while at + _SIZES.size <= len(body):
        key_size, value_size = _SIZES.unpack_from(body, at)
        key_end = at + _SIZES.size + key_size
        at = key_end + (0 if value_size == _GONE else value_size)
        if at > len(body):
            break
        key = bytes(body[key_end - key_size : key_end])
        if value_size == _GONE:
            exact = False
        elif is_sound(key, value := bytes(body[key_end:at])):
            sound.append((key, value))
        else:
            unsound.append(key)
    return Ruin(number, body, sound, unsound, exact and at == len(body))


def _record_at(data: memoryview, position: int) -> Record | None:
    if position + _HEAD.size > len(data):
        return None
    _, checksum, size, number, safe = _HEAD.unpack_from(data, position)
    end = position + _HEAD.size + size
    if end > len(data) or crc32(data[position + _CHECKED_FROM : end]) != checksum:
        return None
    return Record(number, safe, data[position + _HEAD.size : end])


def _mark(life: int) -> bytes:
    return life.to_bytes(8, "little")
