"""Walks over a RocksDB in the order of its keys, to whom a damaged block is an end with a reason, or a place to get past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rocksdict import Rdict, RdictIter, ReadOptions

from bridgehead.errors import DamageError, StorageError
from bridgehead.storage.keys import Kind
from bridgehead.storage.values import is_sound

READ_AHEAD: Final = 2 << 20
WIDEST_KEY: Final = 64  # bytes in which a way past damage is looked for when nothing was read before it


def scan(db: Rdict, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Everything under a prefix; DamageError where RocksDB cannot go on."""
    cursor = _cursor(db, prefix)
    while cursor.valid() and cursor.key().startswith(prefix):
        yield cursor.key(), cursor.value()
        cursor.next()
    _must_be_sound(cursor)


def scan_past_damage(db: Rdict, prefix: bytes, on_bad: Callable[[bytes, bytes | None], None]) -> Iterator[tuple[bytes, bytes]]:
    """Everything under a prefix that can be read; ``on_bad`` hears between which keys something cannot (None = to the end)."""
    last, cursor = prefix, _cursor(db, prefix)
    while True:
        while cursor.valid() and cursor.key().startswith(prefix):
            last = cursor.key()
            yield last, cursor.value()
            cursor.next()
        if _is_sound(cursor):
            return
        beyond = _beyond(db, last)
        cursor = _cursor(db, beyond)
        on_bad(last, cursor.key() if cursor.valid() else None)


def _beyond(db: Rdict, last: bytes) -> bytes:
    """The first place behind ``last`` where reading works again: steps of doubling width, then halving between no and yes.

    Keys end in numbers, so the first steps go from batch to batch of one shelf.
    """
    width = len(last) if len(last) > 1 else WIDEST_KEY
    start = int.from_bytes(last.ljust(width, b"\0"), "big")
    top = (1 << (8 * width)) - 1

    def readable(place: int) -> bool:
        return _is_sound(_cursor(db, place.to_bytes(width, "big")))

    step = 1
    while start + step < top and not readable(start + step):
        step *= 2
    bad, good = start + step // 2, min(start + step, top)
    while good - bad > 1:
        middle = (bad + good) // 2
        if readable(middle):
            good = middle
        else:
            bad = middle
    return good.to_bytes(width, "big")


def _cursor(db: Rdict, start: bytes) -> RdictIter:
    options = ReadOptions()
    options.set_readahead_size(READ_AHEAD)
    cursor = db.iter(options)
    cursor.seek(start)
    return cursor


def _is_sound(cursor: RdictIter) -> bool:
    try:
        cursor.status()
    except Exception:  # rocksdict has no type of its own for what RocksDB says
        return False
    return True


def _must_be_sound(cursor: RdictIter) -> None:
    try:
        cursor.status()
    except Exception as error:
        raise reading_failed(error) from None


def reading_failed(error: Exception) -> StorageError:
    """What RocksDB says: that something is not as it was written, or that the disk does not give it out (no damage)."""
    return DamageError(str(error)) if "Corruption" in str(error) else StorageError(str(error))


def inspect(db: Rdict) -> None:
    """Read everything once. DamageError at the first thing that is not as it was written, or not there."""
    batches: set[bytes] = set()  # those without an index entry, without their kind
    for kind in (Kind.BATCH, Kind.INDEX, Kind.NOTE, Kind.STATE):
        for key, value in scan(db, kind.value):
            if not is_sound(key, value):
                raise DamageError("a checksum does not fit")
            if kind is Kind.BATCH:
                batches.add(key[1:])
            elif kind is Kind.INDEX:
                if key[1:] not in batches:
                    raise DamageError("a batch is missing")
                batches.remove(key[1:])
    if batches:
        raise DamageError("an index entry is missing")
