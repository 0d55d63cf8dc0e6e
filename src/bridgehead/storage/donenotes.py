"""Notes of rows that are done while others of their batch are not: what a restart must know of a queue.

A note is (first number, rows). It leaves with its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.storage.segments import Segment, Segments

OUTBOX: Final = "outbox"
"""The rows of a route are on the shelf (OUTBOX, route)."""
DONE_NOTES: Final = "done"
"""The notes of a route's outbox under (DONE_NOTES, route); those of any other queue behind the name of its shelf."""

Seqs = npt.NDArray[np.int64]


def done_notes(shelf: Shelf) -> Shelf:
    """Where the notes of a queue on this shelf are."""
    return (DONE_NOTES, *shelf[1:]) if shelf[0] == OUTBOX else (f"{shelf[0]}-{DONE_NOTES}", *shelf[1:])


def noted_shelf(notes: Shelf) -> Shelf | None:
    """The other way round: whose notes these are; None if they are not of a queue."""
    if notes[0] == DONE_NOTES:
        return (OUTBOX, *notes[1:])
    kind = notes[0].removesuffix(f"-{DONE_NOTES}")
    return None if kind == notes[0] else (kind, *notes[1:])


class DoneNotes:
    """The notes of one shelf."""

    def __init__(self, engine: Engine, shelf: Shelf) -> None:
        self._engine = engine
        self._shelf = done_notes(shelf)
        self._noted: dict[int, list[int]] = {}  # by the segment's start: the numbers of its notes

    def recall(self, changes: Changes, segments: Segments) -> Iterator[tuple[Segment, Seqs]]:
        """Segments and places of rows that were done in an earlier life; notes without a batch go by this write."""
        for first, rows in self._engine.notes(self._shelf):
            index = segments.index_of(first)
            if index < len(segments) and segments[index].start <= first:
                segment = segments[index]
                self._noted.setdefault(segment.start, []).append(first)
                yield segment, np.arange(first - segment.start, min(first - segment.start + rows, segment.rows))
            else:
                changes.notes.append((self._shelf, first, None))

    def note(self, changes: Changes, segment: Segment, places: Seqs) -> None:
        """These rows, in rising order, are done; others of their batch are not."""
        noted = self._noted.setdefault(segment.start, [])
        for run in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1):
            first = segment.start + int(run[0])
            changes.notes.append((self._shelf, first, len(run)))
            noted.append(first)

    def leave(self, changes: Changes, segment: Segment) -> None:
        """The whole batch leaves."""
        changes.notes += [(self._shelf, first, None) for first in self._noted.pop(segment.start, ())]

    def give_up(self, changes: Changes) -> None:
        """The whole shelf leaves."""
        changes.notes += [(self._shelf, first, None) for noted in self._noted.values() for first in noted]
        self._noted.clear()
