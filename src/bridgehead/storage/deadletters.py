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
from bridgehead.storage.donenotes import DoneNotes
from bridgehead.storage.engine import CEILING, Changes, Engine, Shelf
from bridgehead.storage.marks import DONE, WAITING, Marks
from bridgehead.storage.segments import Segment, Segments

DEAD_SHELF: Final = "dead"
"""The dead letters of a route are on the shelf (DEAD_SHELF, route)."""
COUNTS: Final = "dead-counts"
"""How many have left, by what became of them: the state under (COUNTS, route)."""

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""What one route keeps at most; beyond it the oldest dead letter is dropped and counted as FULL."""

TRANSFORM: Final = "transform-"
"""Reasons that begin so: a transform made a row that is no message, and no outbox may have it."""
TRANSFORM_FAILED: Final = "transform-failed"
"""But for this one: a message that its transform failed on, as it came; it can go through it again."""
NO_DESTINATION: Final = "no-destination"
"""A message, as it came, that the destination of its route makes no valid topic for."""
AS_THEY_CAME: Final = (TRANSFORM_FAILED, NO_DESTINATION)
"""Dead letters with these reasons are no outbox rows: sent again, they begin their way anew."""

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
        shelf: Shelf = (DEAD_SHELF, route)
        self._segments = Segments(engine, shelf)
        self._marks = Marks()  # one that has left is done
        self._notes = DoneNotes(engine, shelf)
        self._counts_name: Shelf = (COUNTS, route)
        self._touched = 0  # no row from here on has left
        self.end = self._segments.ceiling  # the id that the next one gets
        self.left: dict[str, int] = dict(engine.state(self._counts_name) or {})  # by what became of them
        self._recover()
        self.weight = sum(self._weight_of(segment) for segment in self._segments)

    def _recover(self) -> None:
        """Find what an earlier life has left: rows of QoS 0 have not survived."""
        changes = Changes()
        self._touched = self.end
        self._marks.recover(changes, self._segments, self._notes)
        if changes.notes:
            self._engine.write(changes)

    def __len__(self) -> int:
        return self._segments.rows - self._marks.done

    def rows(self) -> Iterator[tuple[Seqs, Batch]]:
        """Ids and DEAD rows, oldest first, batch by batch."""
        for segment in self._segments:
            here = self._marks.here(segment)
            yield segment.start + here, self._segments.batch(segment).take(pa.array(here))

    def ids(self) -> Seqs:
        return np.concatenate([np.zeros(0, np.int64), *(each.start + self._marks.here(each) for each in self._segments)])

    def reasons(self, ids: Seqs) -> list[str]:
        """Why each of these, in rising order, is here."""
        found: list[str] = []
        for start, rows in self._by_segment(ids):
            batch = self._segments.batch(self._segments[self._segments.index_of(start)])
            found += batch.column("reason").take(pa.array(rows)).to_pylist()
        return found

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

    def give_up(self, changes: Changes) -> None:
        """Nobody will ask for these again: they leave nothing behind."""
        self._notes.give_up(changes)
        self._segments.give_up(changes)
        self._marks.clear()
        self.weight = 0
        self.left.clear()
        if self._engine.state(self._counts_name) is not None:
            changes.state[self._counts_name] = None

    def taken(self) -> None:
        """The write is made: merge small batches."""
        self._segments.merge_tail(touched_below=self._touched)

    def _make_room(self, changes: Changes, rows: int, size: int) -> None:
        over_rows = len(self) + rows - self._max_rows
        while len(self._segments) and (over_rows > 0 or self.weight + size > self._max_bytes):
            segment = self._segments[0]
            here = self._marks.here(segment)
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
            self._marks.move(segment, rows, WAITING, DONE)
            self._touched = max(self._touched, segment.end)
            if self._marks.all_done(segment):
                self._marks.forget(segment)
                self._notes.leave(changes, segment)
                self._segments.drop(changes, index)
            elif segment.stored:
                self._notes.note(changes, segment, rows)
        self._count(changes, why, len(ids))
        return removed

    def _by_segment(self, ids: Seqs) -> Iterator[tuple[int, Seqs]]:
        position = 0
        while position < len(ids):
            segment = self._segments[self._segments.index_of(int(ids[position]))]
            until = int(np.searchsorted(ids, segment.end))
            yield segment.start, ids[position:until] - segment.start
            position = until

    def _count(self, changes: Changes, why: str, rows: int) -> None:
        if rows:
            self.left[why] = self.left.get(why, 0) + rows
            changes.state[self._counts_name] = dict(self.left)

    def _weight_of(self, segment: Segment) -> int:
        """What the rows that are here weigh."""
        if self._marks.known(segment) is None:
            return segment.weight
        return int(_weights(self._segments.batch(segment))[self._marks.here(segment)].sum())


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
