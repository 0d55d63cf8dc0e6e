"""Ranges of offsets that hold no row: what a restart leaves where rows of QoS 0 were, and above a ceiling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np


class Gaps:
    """Sorted ranges [start, end) that do not touch each other."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        found = np.array([each for each in ranges if each[0] < each[1]], np.int64).reshape(-1, 2)
        self._starts, self._ends = found[:, 0], found[:, 1]
        self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._ends - self._starts)])

    def __bool__(self) -> bool:
        return len(self._starts) > 0

    def below(self, offset: int) -> int:
        """How many missing offsets are below this one."""
        index = int(np.searchsorted(self._starts, offset, side="right"))
        if index and offset < self._ends[index - 1]:
            return int(self._before[index] - (self._ends[index - 1] - offset))
        return int(self._before[index])

    def rows(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What is left of [start, end) without the gaps, as ranges in order."""
        index = int(np.searchsorted(self._ends, start, side="right"))
        while start < end:
            gap = int(self._starts[index]) if index < len(self._starts) else end
            if start < min(gap, end):
                yield start, min(gap, end)
            if gap >= end:
                return
            start, index = int(self._ends[index]), index + 1


def missing(present: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int) -> Iterator[tuple[int, int]]:
    """The ranges of numbers from ``first`` on where ``present`` says no."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], present, [True]]).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first + start, first + end
