"""What the front log holds and RocksDB does not have yet: whoever reads looks here first. Of a batch only its place is in RAM.

Two generations, one for each file of the log. What came since the last change of files is the young one; the old one moves to
RocksDB piece by piece, less what the young one has replaced or taken away meanwhile. So a queue that flows never moves at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rocksdict import Rdict

from bridgehead.storage.records import Held, Kept
from bridgehead.storage.scanning import scan

_UNKNOWN: Final[Held] = b"unknown"  # compared by what it is, not by what it says


def _no_log(kept: Kept) -> bytes:
    raise AssertionError(f"there is no log to read {kept} from")


def _size(key: bytes, value: Held | None) -> int:
    return len(key) + (sum(value.sizes) if isinstance(value, Kept) else len(value or b""))


class Overlay:
    def __init__(self, read: Callable[[Kept], bytes] = _no_log) -> None:
        """``read`` gets a batch back from the log; not needed where whole values are put."""
        self._read = read
        self._young: dict[bytes, Held | None] = {}
        self._old: dict[bytes, Held | None] = {}
        self._moving: deque[bytes] = deque()  # keys of the old generation that are still to move
        self._newer = 0  # bytes of what counts in the file that is written to
        self._older = 0  # and in the other one; of what has moved, too, until that file is free

    def put(self, changes: Iterable[tuple[bytes, Held | None]]) -> None:
        young, old = self._young, self._old
        for key, value in changes:
            if key in young:
                self._newer -= _size(key, young[key])
            elif key in old:
                self._older -= _size(key, old[key])
            young[key] = value
            self._newer += _size(key, value)

    @property
    def to_replay(self) -> int:
        """Bytes that RocksDB gets at the next start if everything ends now."""
        return self._newer + self._older

    def change_files(self) -> None:
        """What comes from now on stands in the other file, of which nothing is needed."""
        self.age()
        self._newer, self._older = 0, self._newer

    def free_file(self) -> None:
        """Nothing is needed any more of the file that is not written to."""
        self._older = 0

    def age(self) -> None:
        """The young generation becomes the old one, of which nothing must be left."""
        assert not self._moving
        self._old, self._young = self._young, {}
        self._moving.extend(self._old)

    @property
    def is_moving(self) -> bool:
        return bool(self._moving)

    def next(self, size: int) -> Iterator[tuple[bytes, Held | None, bool]]:
        """Changes of the old generation to move now, of about so many bytes, and whether the young one has something newer."""
        for key in self._moving:
            if size <= 0:
                return
            value = self._old[key]
            size -= _size(key, value)
            yield key, value, key in self._young

    def moved(self, count: int) -> int:
        """RocksDB has so many of them; returns their bytes."""
        size = 0
        for _ in range(count):
            key = self._moving.popleft()
            size += _size(key, self._old.pop(key))
        return size

    def gone(self) -> Iterator[bytes]:
        """Keys that were taken away, and RocksDB may still have."""
        for key, value in self._old.items():
            if value is None and key not in self._young:
                yield key
        for key, value in self._young.items():
            if value is None:
                yield key

    def get(self, db: Rdict, key: bytes) -> bytes | None:
        """What a key leads to."""
        value = self._young.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._old.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            found: bytes | None = db.get(key)
            return found
        return self._read(value) if isinstance(value, Kept) else value

    def scan(self, db: Rdict, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Everything under a prefix in the order of the keys."""
        both = {**self._old, **self._young}
        mine = sorted((key for key in both if key.startswith(prefix)), reverse=True)
        for key, value in scan(db, prefix):
            while mine and mine[-1] < key:
                yield from self._there(mine[-1], both[mine.pop()])
            if key not in both:
                yield key, value
        while mine:
            yield from self._there(mine[-1], both[mine.pop()])

    def _there(self, key: bytes, value: Held | None) -> Iterator[tuple[bytes, bytes]]:
        if value is not None:
            yield key, self._read(value) if isinstance(value, Kept) else value
