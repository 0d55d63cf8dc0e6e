"""A run of batches in rising order of their first row's number; small neighbours are merged so that a backlog stays cheap.

A record batch costs kilobytes whatever it holds. Ticks of a quiet node bring a row or two each; without merging, a million
waiting rows would cost gigabytes. Every FAN untouched neighbours of one level become one batch of the next level.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.columns.batches import Batch, concat, durable_rows
from bridgehead.storage.engine import CEILING, Changes, Engine, Shelf

FAN: Final = 32
TOP_LEVEL: Final = 2
SMALL_ROWS: Final = 64
"""A batch above this many rows starts at the top level: it is never copied again."""
SMALL_BYTES: Final = 1 << 16
"""The same for a batch above this many bytes: merging large payloads would only copy them, up to Arrow's 2 GiB."""
CEILING_BLOCK: Final = 1_000_000
"""Numbers are promised to the disk this far ahead: after a restart the next one is above all that were ever given."""


@dataclass(slots=True)
class Segment:
    """One batch: rows [start, start + rows)."""

    start: int
    rows: int
    weight: int
    level: int
    stored: bool = False  # whether rows of it are on a disk
    mixed: bool = False  # whether others of it are not
    holes: int = 0  # rows that a restart has left out
    loose: int = 0  # bytes of rows that are not on a disk though others could be
    newest: int | None = None  # when its last row arrived; None: somebody has to look

    @property
    def end(self) -> int:
        return self.start + self.rows

    @property
    def there(self) -> int:
        return self.rows - self.holes


class Segments:
    """The batches of one shelf, found by row number."""

    def __init__(self, engine: Engine, shelf: Shelf) -> None:
        self._engine = engine
        self._shelf = shelf
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._first = 0  # the first of the list that is still here: a long backlog drains without being moved each time
        self.rows = 0  # of all segments, without what a restart has left out
        self.weight = 0  # of all segments
        self.loose = 0  # of that, what is only in RAM though there is a disk
        self._ceiling_name: Shelf = (CEILING, *shelf)
        self.ceiling: int = engine.state(self._ceiling_name) or 0  # no number from here on was ever given
        self.holes: dict[int, npt.NDArray[np.bool_]] = {}  # by the segment's start: which rows survived, where some did not
        for start, shape in engine.shapes(shelf):
            # Never merged again: a merge would take the holes for rows.
            segment = Segment(start, shape.rows, shape.weight, TOP_LEVEL, engine.durable)
            if shape.present is not None:
                self.holes[start] = shape.present
                segment.holes = shape.rows - int(np.count_nonzero(shape.present))
            self._add(segment)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._starts.append(segment.start)
        self.rows += segment.there
        self.weight += segment.weight
        self.loose += segment.loose

    def __len__(self) -> int:
        return len(self._segments) - self._first

    def __iter__(self) -> Iterator[Segment]:
        return islice(self._segments, self._first, None)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[self._first + index if index >= 0 else index]

    def batch(self, segment: Segment) -> Batch:
        return self._engine.read(self._shelf, segment.start)

    def append(self, changes: Changes, start: int, batch: Batch, size: int) -> Segment:
        level = 0 if batch.num_rows < SMALL_ROWS and size < SMALL_BYTES else TOP_LEVEL
        segment = Segment(start, batch.num_rows, size, level)
        if self._engine.durable:
            safe = durable_rows(batch)
            segment.stored, segment.mixed = safe > 0, 0 < safe < segment.rows
            segment.loose = size * (segment.rows - safe) // segment.rows
        self._add(segment)
        changes.puts.append((self._shelf, start, batch))
        self.promise(changes, segment.end)
        return segment

    def promise(self, changes: Changes, end: int) -> None:
        """Numbers below ``end`` are given: no later life gives them again."""
        if self._engine.durable and end > self.ceiling:
            self.ceiling = changes.state[self._ceiling_name] = end + CEILING_BLOCK

    def index_of(self, number: int) -> int:
        """The index of the segment that holds ``number``, or of the first one behind it."""
        index = bisect_right(self._starts, number, self._first) - 1
        if index >= self._first and number < self._segments[index].end:
            return index - self._first
        return index + 1 - self._first

    def drop(self, changes: Changes, index: int) -> None:
        segment = self[index]
        if index:
            del self._segments[self._first + index], self._starts[self._first + index]
        else:
            self._first += 1
            if self._first > len(self):
                del self._segments[: self._first], self._starts[: self._first]
                self._first = 0
        self.rows -= segment.there
        self.weight -= segment.weight
        self.loose -= segment.loose
        changes.drops.append((self._shelf, segment.start))

    def give_up(self, changes: Changes) -> None:
        """All of them leave, and the shelf with them."""
        changes.drops += [(self._shelf, segment.start) for segment in self]
        self._segments.clear()
        self._starts.clear()
        self._first = self.rows = self.weight = self.loose = 0
        if self.ceiling:
            changes.state[self._ceiling_name] = None

    def merge_tail(self, touched_below: int) -> None:
        """Merge full runs of small segments at the tail that nobody has started to read (rows >= touched_below)."""
        while len(self) >= FAN and self[-FAN].start >= touched_below and self._merge(len(self)):
            pass

    def merge_below(self, end: int) -> None:
        """The same for the last segments whose rows are all below ``end``."""
        stop = bisect_right(self._starts, end - 1, self._first) - self._first
        if stop and self[stop - 1].end > end:
            stop -= 1
        while stop >= FAN and self._merge(stop):
            stop -= FAN - 1

    def _merge(self, stop: int) -> bool:
        """Make one of the last FAN segments before ``stop``, if they are small, of one level, and without a gap."""
        last = self._first + stop
        run = self._segments[last - FAN : last]
        level = run[0].level
        if level >= TOP_LEVEL or any(segment.level != level for segment in run):
            return False
        if any(one.end != following.start for one, following in pairwise(run)):
            return False
        merged = concat([self.batch(segment) for segment in run])
        changes = Changes(drops=[(self._shelf, segment.start) for segment in run[1:]])
        changes.puts.append((self._shelf, run[0].start, merged))
        self._engine.write(changes)
        segment = Segment(run[0].start, merged.num_rows, sum(s.weight for s in run), level + 1)
        segment.stored = any(s.stored for s in run)
        segment.mixed = segment.stored and any(s.mixed or not s.stored for s in run)
        segment.loose = sum(s.loose for s in run)
        segment.newest = run[-1].newest
        self._segments[last - FAN : last] = [segment]
        self._starts[last - FAN : last] = [segment.start]
        return True
