"""Whose the rows of a log are: a route for each row that waits, as a column of small numbers.

Rows of many routes lie side by side in a log, so whoever asks how many of a range belong to whom has them counted in columns.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bridgehead.columns.labels import Labels

NOBODY: Final = 0
"""The number of rows that are not there: what a restart has left out."""

CHUNK: Final = 4096
"""Rows that are kept together."""

REMEMBERED: Final = 256
"""Sets of names that are translated without a look at each name: one, as long as the routes of a node stay as they are."""


class _Chunk(NamedTuple):
    start: int
    numbers: npt.NDArray[np.int32]


class Owners:
    """The routes of rows [start, end), with gaps; rows are added at the end and forgotten at the start."""

    def __init__(self) -> None:
        self._names: list[str | None] = [None]  # by number; that of NOBODY is none
        self._numbers: dict[str, int] = {}
        self._numbers_of: dict[tuple[str, ...], npt.NDArray[np.int32]] = {}  # of names that come together
        self._chunks: list[_Chunk] = []
        self._used = 0  # rows of the last chunk

    def extend(self, start: int, labels: Labels) -> None:
        """Rows from ``start`` on, which is nowhere below what was added before."""
        numbers = self._translation(labels.names)[labels.of_row]
        if not self._chunks or self._chunks[-1].start + self._used != start or self._used + len(numbers) > CHUNK:
            self._begin(start, max(len(numbers), CHUNK))
        last = self._chunks[-1]
        last.numbers[self._used : self._used + len(numbers)] = numbers
        self._used += len(numbers)

    def counts(self, start: int, end: int) -> dict[str, int]:
        """How many rows of [start, end) each route has, where it has any."""
        total = np.zeros(len(self._names), np.int64)
        index = max(bisect_right(self._chunks, start, key=_start) - 1, 0)
        while index < len(self._chunks) and self._chunks[index].start < end:
            first, numbers = self._chunks[index]
            used = self._used if index + 1 == len(self._chunks) else len(numbers)
            numbers = numbers[max(start - first, 0) : min(end - first, used)]
            total += np.bincount(numbers, minlength=len(total))
            index += 1
        total[NOBODY] = 0
        return {str(self._names[number]): int(total[number]) for number in np.flatnonzero(total)}

    def forget(self, below: int) -> None:
        """Nobody asks below this any more."""
        done = bisect_right(self._chunks, below, key=_start) - 1
        if done > 0:
            del self._chunks[:done]

    def _begin(self, start: int, room: int) -> None:
        """A new chunk; the one before it takes no more rows, and the room of one number if they are all of one route."""
        if self._chunks:
            first, numbers = self._chunks[-1]
            numbers = numbers[: self._used]
            alike = bool((numbers == numbers[0]).all())
            self._chunks[-1] = _Chunk(first, np.broadcast_to(numbers[:1].copy(), len(numbers)) if alike else numbers)
        self._chunks.append(_Chunk(start, np.empty(room, np.int32)))
        self._used = 0

    def _translation(self, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
        """Our number for each of these names, and behind them that of no name."""
        found = self._numbers_of.get(names)
        if found is None:
            if len(self._numbers_of) >= REMEMBERED:
                self._numbers_of.clear()
            found = np.array([*map(self._number, names), NOBODY], np.int32)
            self._numbers_of[names] = found
        return found

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number


def _start(chunk: _Chunk) -> int:
    return chunk.start
