"""What the write-ahead logs of RocksDB say about themselves: which sequence numbers they hold.

RocksDB opens without a word when a log is missing, or when its manifest has lost its end (and then it deletes the tables that
the manifest no longer names). Both leave a gap: every record carries the number of its first change and how many there are, and
the logs together go on where the tables end. Layout: blocks of 32 KiB; fragments behind a header of checksum, length and
kind; a fragment never crosses a block. Checksums are left to RocksDB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BLOCK: Final = 32 * 1024
_HEADER = struct.Struct("<IHB")
_LOG_NUMBER: Final = 4  # bytes more in the header of a log that took over an old one's file
_CHANGES = struct.Struct("<QI")  # the number of the first change of a record, and how many there are
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_RECYCLED: Final = {5: FULL, 6: FIRST, 7: MIDDLE, 8: LAST}


def logs_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"), key=lambda path: int(path.stem) if path.stem.isdigit() else 0)


def gap(directory: Path, stored: int) -> tuple[int, int] | None:
    """The first changes [from, to) that are neither in the tables, which hold all up to ``stored``, nor in a log."""
    following = stored + 1
    for path in logs_of(directory):
        for first, count in changes(path.read_bytes()):
            if not count:
                continue  # it changes nothing, and its number says nothing about what was before
            if first > following:
                return following, first
            following = max(following, first + count)
    return None


def is_torn(directory: Path) -> bool:
    """Whether the last log ends in the middle of a record, as a loss of power leaves it, and not with a damaged one.

    The length of a damaged record may point beyond the end as well; but then the record that followed it is still there.
    """
    log = logs_of(directory)[-1].read_bytes()
    following, end = 0, 0
    for kind, start, stop in _fragments(log):
        if kind in (FULL, FIRST) and stop - start >= _CHANGES.size:
            first, count = _CHANGES.unpack_from(log, start)
            following = first + count
        end = stop
    if len(log) - end >= _HEADER.size + _CHANGES.size and log[end + _HEADER.size - 1] in (FULL, FIRST):
        first, count = _CHANGES.unpack_from(log, end + _HEADER.size)
        following = first + count
    place = log.find(following.to_bytes(8, "little"), end + _HEADER.size + 1)  # its own number may be all that is left of it
    return place < 0 or log[place - 1] not in (FULL, FIRST)


def changes(log: bytes) -> Iterator[tuple[int, int]]:
    """(number of the first change, changes) of each record, up to the first that makes no sense."""
    head = b""
    for kind, start, end in _fragments(log):
        if kind in (FULL, FIRST):
            head = log[start : min(end, start + _CHANGES.size)]
        elif kind in (MIDDLE, LAST) and len(head) < _CHANGES.size:
            head += log[start : min(end, start + _CHANGES.size - len(head))]
        else:
            continue
        if len(head) == _CHANGES.size:
            yield _CHANGES.unpack(head)
            head = bytes(_CHANGES.size + 1)  # the rest of its fragments say nothing more


def _fragments(log: bytes) -> Iterator[tuple[int, int, int]]:
    """(kind, start, end) of each fragment."""
    position = 0
    while position + _HEADER.size <= len(log):
        left = BLOCK - position % BLOCK
        if left < _HEADER.size:
            position += left
            continue
        _, length, kind = _HEADER.unpack_from(log, position)
        if kind == 0 and length == 0:
            position += left  # nothing more in this block
            continue
        start = position + _HEADER.size + (_LOG_NUMBER if kind in _RECYCLED else 0)
        if start + length > min(position + left, len(log)):
            return
        yield _RECYCLED.get(kind, kind), start, start + length
        position = start + length
