"""The dead letters of one route: rows that the remote will not take, kept until somebody sends them again or drops them.

A dead letter is an outbox row with its reason, its time and its attempts. It comes here in the write in which it leaves the
outbox. Its number on the shelf is its id, and never repeats. As in the outbox, one that leaves is a note until its whole batch
has left. Beyond the bounds the oldest give way, counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, row_weights, weight
from bridgehead.columns.schema import DEAD, OUTBOX, TIMESTAMP
from bridgehead.storage.engine import CEILING, Changes, Engine, Shelf
from bridgehead.storage.segments import Segment, Segments

DEAD_SHELF: Final = "dead"
"""The dead letters of a route are on the shelf (DEAD_SHELF, route)."""
GONE_NOTES: Final = "dead-done"
"""Runs of rows that have left a batch of it are the notes of (GONE_NOTES, route): the name by which a repair knows them."""
COUNTS: Final = "dead-counts"
"""How many have left, by what became of them: the state under (COUNTS, route)."""

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""What one route keeps at most; beyond it the oldest dead letter is dropped and counted as FULL."""

RESENT: Final = "resent"
DROPPED: Final = "dropped"
FULL: Final = "dead-letters-full"

Seqs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deaths:
    """Rows to be given up, each with its reason and how often it was sent."""

    seqs: Seqs
    reasons: list[str]
    attempts: list[int]

    def part(self, first: int, end: int) -> Deaths:
        return Deaths(self.seqs[first:end], self.reasons[first:end], self.attempts[first:end])

    def by_reason(self) -> Iterator[tuple[str, Seqs]]:
        for reason in dict.fromkeys(self.reasons):
            yield reason, self.seqs[np.array([each == reason for each in self.reasons])]

    def only(self, which: list[bool]) -> Deaths:
        seqs = self.seqs[np.array(which, np.bool_)]
        return Deaths(seqs, list(compress(self.reasons, which)), list(compress(self.attempts, which)))


class DeadLetters:
    """Rows in, by the outbox's ``bury``; rows out, by their ids. Used from the node's event loop only."""

    def __init__(self, route: str, engine: Engine, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self.route = route
        self._engine = engine
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._segments = Segments(engine, (DEAD_SHELF, route))
        self._gone_shelf: Shelf = (GONE_NOTES, route)
        self._counts_name: Shelf = (COUNTS, route)
        self._gone: dict[int, npt.NDArray[np.bool_]] = {}  # by the segment's start: made when its first row leaves
        self._noted: dict[int, list[int]] = {}  # by the segment's start: the numbers of its notes
        self._touched = 0  # no row from here on has left
        self.end = self._segments.ceiling  # the id that the next one gets
        self.left: dict[str, int] = dict(engine.state(self._counts_name) or {})  # by what became of them
        self._recover()
        self.weight = sum(self._weight_of(segment) for segment in self._segments)

    def _recover(self) -> None:
        """Find what an earlier life has left: rows of QoS 0 have not survived."""
        changes = Changes()
        self._touched = self.end
        for start, present in self._segments.holes.items():
            self._gone[start] = ~present
        self._segments.holes.clear()
        for first, rows in self._engine.notes(self._gone_shelf):
            index = self._segments.index_of(first)
            if index < len(self._segments) and self._segments[index].start <= first:
                segment = self._segments[index]
                self._gone_of(segment)[first - segment.start : first - segment.start + rows] = True
                self._noted.setdefault(segment.start, []).append(first)
            else:
                changes.notes.append((self._gone_shelf, first, None))
        if changes.notes:
            self._engine.write(changes)

    def __len__(self) -> int:
        return sum(segment.rows for segment in self._segments) - sum(int(gone.sum()) for gone in self._gone.values())

    def rows(self) -> Iterator[tuple[Seqs, Batch]]:
        """Ids and DEAD rows, oldest first, batch by batch."""
        for segment in self._segments:
            here = self._here(segment)
            yield segment.start + here, self._segments.batch(segment).take(pa.array(here))

    def ids(self) -> Seqs:
        return np.concatenate([np.zeros(0, np.int64), *(segment.start + self._here(segment) for segment in self._segments)])

    def _here(self, segment: Segment) -> Seqs:
        """The places of the rows that have not left; asking for them leaves the segment untouched, free to be merged."""
        gone = self._gone.get(segment.start)
        return np.arange(segment.rows) if gone is None else np.flatnonzero(~gone)

    def take(self, changes: Changes, rows: Batch, deaths: Deaths, now_us: int) -> None:
        """These OUTBOX rows become dead letters in this write; the oldest give way where there is no room."""
        dead = pa.RecordBatch.from_arrays(
            [
                *(rows.column(name) for name in OUTBOX.names),
                pa.array(deaths.reasons, pa.string()),
                pa.array([now_us] * rows.num_rows, pa.int64()).cast(TIMESTAMP),
                pa.array(deaths.attempts, pa.int32()),
            ],
            schema=DEAD,
        )
        over = _too_many(_weights(dead), self._max_rows, self._max_bytes)
        self._count(changes, FULL, over)
        dead = dead.slice(over)
        size = weight(dead)
        self._make_room(changes, dead.num_rows, size)
        if dead.num_rows:
            self._segments.append(changes, self.end, dead, size)
            self.weight += size
            self.end += dead.num_rows

    def taken(self) -> None:
        """The write is made: merge small batches."""
        self._segments.merge_tail(touched_below=self._touched)

    def _make_room(self, changes: Changes, rows: int, size: int) -> None:
        over_rows = len(self) + rows - self._max_rows
        while len(self._segments) and (over_rows > 0 or self.weight + size > self._max_bytes):
            segment = self._segments[0]
            here = self._here(segment)
            freed = np.cumsum(_weights(self._segments.batch(segment))[here])
            count = int(np.searchsorted(freed, self.weight + size - self._max_bytes)) + 1
            count = min(max(count if self.weight + size > self._max_bytes else 0, over_rows), len(here))
            self.remove(changes, segment.start + here[:count], FULL)
            over_rows -= count

    def remove(self, changes: Changes, ids: Seqs, why: str) -> list[Batch]:
        """These dead letters leave in this write; every one of them is here. Returns them as OUTBOX rows, in order."""
        removed = []
        for start, rows in self._by_segment(np.sort(ids)):
            index = self._segments.index_of(start)
            segment = self._segments[index]
            batch = self._segments.batch(segment)
            removed.append(batch.select(OUTBOX.names).take(pa.array(rows)))
            self.weight -= int(_weights(batch)[rows].sum())
            gone = self._gone_of(segment)
            gone[rows] = True
            self._touched = max(self._touched, segment.end)
            if gone.all():
                self._leave(changes, index)
            elif segment.stored:
                self._note_gone(changes, segment, rows)
        self._count(changes, why, len(ids))
        return removed

    def _by_segment(self, ids: Seqs) -> Iterator[tuple[int, Seqs]]:
        position = 0
        while position < len(ids):
            segment = self._segments[self._segments.index_of(int(ids[position]))]
            until = int(np.searchsorted(ids, segment.end))
            yield segment.start, ids[position:until] - segment.start
            position = until

    def _leave(self, changes: Changes, index: int) -> None:
        segment = self._segments[index]
        del self._gone[segment.start]
        changes.notes += [(self._gone_shelf, first, None) for first in self._noted.pop(segment.start, ())]
        self._segments.drop(changes, index)

    def _note_gone(self, changes: Changes, segment: Segment, rows: Seqs) -> None:
        noted = self._noted.setdefault(segment.start, [])
        for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
            changes.notes.append((self._gone_shelf, segment.start + int(run[0]), len(run)))
            noted.append(segment.start + int(run[0]))

    def _count(self, changes: Changes, why: str, rows: int) -> None:
        if rows:
            self.left[why] = self.left.get(why, 0) + rows
            changes.state[self._counts_name] = dict(self.left)

    def _gone_of(self, segment: Segment) -> npt.NDArray[np.bool_]:
        gone = self._gone.get(segment.start)
        if gone is None:
            gone = self._gone[segment.start] = np.zeros(segment.rows, np.bool_)
        return gone

    def _weight_of(self, segment: Segment) -> int:
        """What the rows that are here weigh."""
        gone = self._gone.get(segment.start)
        if gone is None:
            return segment.weight
        return int(_weights(self._segments.batch(segment))[~gone].sum())


def routes_with_dead_letters(engine: Engine) -> list[str]:
    """Every route that ever had some, also those that are not in the settings any more."""
    return [name[2] for name, _ in engine.states((CEILING, DEAD_SHELF))]


def _weights(batch: Batch) -> npt.NDArray[np.int64]:
    """What each row weighs."""
    return np.diff(row_weights(batch))


def _too_many(weights: npt.NDArray[np.int64], max_rows: int, max_bytes: int) -> int:
    """How many leading rows must go so that the others keep the bounds."""
    from_here_on = np.cumsum(weights[::-1])[::-1]
    return max(len(weights) - max_rows, int(np.count_nonzero(from_here_on > max_bytes)), 0)
