"""What has become of the rows of a shelf: waiting, marked (polled and not answered) or done, batch by batch.

What is marked is read from the marks themselves. What is done is also counted, here and nowhere else, so that a queue of
thousands of batches knows its depth without looking at each.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.storage.donenotes import DoneNotes
from bridgehead.storage.engine import Changes
from bridgehead.storage.segments import Segment, Segments

WAITING: Final = 0
MARKED: Final = 1
DONE: Final = 2

Seqs = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]


class Marks:
    """By segment, made when its first row is touched; a segment without marks has only waiting rows."""

    def __init__(self) -> None:
        self._states: dict[int, States] = {}  # by the segment's start
        self._done_of: dict[int, int] = {}  # the same: its done rows, without those that a restart has left out
        self.done = 0  # rows of all segments that are done
        self.done_weight = 0  # the share that they have in the weights of their segments

    def recover(self, changes: Changes, segments: Segments, notes: DoneNotes) -> None:
        """What an earlier life has left: rows it had only in RAM are nobody's any more, and what it noted is done."""
        for start, present in segments.holes.items():
            self._states[start] = np.where(present, WAITING, DONE).astype(np.uint8)
        segments.holes.clear()
        for segment, places in notes.recall(changes, segments):
            self.move(segment, places, WAITING, DONE)

    def known(self, segment: Segment) -> States | None:
        """None if all its rows wait."""
        return self._states.get(segment.start)

    def of(self, segment: Segment) -> States:
        states = self._states.get(segment.start)
        if states is None:
            states = self._states[segment.start] = np.zeros(segment.rows, np.uint8)
        return states

    def move(self, segment: Segment, places: Seqs, old: int, new: int) -> Seqs:
        """Those of these rows that are in one state get into the other; returns which."""
        states = self.of(segment)
        places = places[states[places] == old]
        states[places] = new
        if new == DONE and len(places):
            self._count(segment, len(places))
        return places

    def all_done(self, segment: Segment) -> bool:
        return self._done_of.get(segment.start, 0) == segment.there

    def here(self, segment: Segment) -> Seqs:
        """The places of the rows that are not done."""
        states = self._states.get(segment.start)
        return np.arange(segment.rows) if states is None else np.flatnonzero(states != DONE)

    @property
    def marked(self) -> int:
        return sum(int(np.count_nonzero(states == MARKED)) for states in self._states.values())

    def forget(self, segment: Segment) -> None:
        """It leaves."""
        self._count(segment, -self._done_of.get(segment.start, 0))
        self._states.pop(segment.start, None)
        self._done_of.pop(segment.start, None)

    def clear(self) -> None:
        self._states.clear()
        self._done_of.clear()
        self.done = self.done_weight = 0

    def _count(self, segment: Segment, rows: int) -> None:
        before = self._done_of.get(segment.start, 0)
        self._done_of[segment.start] = before + rows
        self.done += rows
        if segment.there:
            self.done_weight += segment.weight * (before + rows) // segment.there - segment.weight * before // segment.there
