"""The journal: append-only logs of accepted messages, read by offset range, trimmed when their reader has moved on.

One log per Spark query. Offsets never repeat within an incarnation; a range may have holes. ``consumed`` is the offset below
which everything has become outbox rows; only a commit moves it, in the same write as those rows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from bridgehead.columns.batches import Batch, label_runs, received_us, rows_of, weight
from bridgehead.storage.engine import CEILING, Changes, Engine, Shelf
from bridgehead.storage.gaps import Gaps, missing
from bridgehead.storage.runs import Runs
from bridgehead.storage.segments import Segments

SHARED: Final = "shared"
"""The log of all routes without a transform."""

JOURNAL: Final = "journal"
"""The rows of a log are on the shelf (JOURNAL, name)."""

PARTITION: Final = 0


class Log:
    """One append-only log. Everything here runs on the node's event loop."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine
        self._segments = Segments(engine, (JOURNAL, name))
        self.end = 0  # the offset the next row gets
        self.visible = 0  # readers see rows below this: those whose promise is kept
        self.consumed = 0  # rows below this have become outbox rows
        self._spent = 0  # of the bytes held: those of batches whose rows are all consumed
        self._gaps = Gaps()  # offsets without a row: what a restart leaves
        self._runs = Runs()  # whose the rows are that wait
        self.waiting_of: dict[str, int] = {}  # rows that wait, by route
        self.on_visible: Callable[[], None] = lambda: None  # more rows may be read
        if self._segments.ceiling:
            self._recover()

    def _recover(self) -> None:
        """Find what an earlier life has left. Offsets go on above the ceiling; what was below it and is gone is a gap."""
        self.end = self.visible = self._segments.ceiling
        self.consumed = self._engine.state(consumed_name(self.name)) or 0
        self._spent = sum(segment.weight for segment in self._segments if segment.end <= self.consumed)
        ranges: list[tuple[int, int]] = []
        position = 0
        for segment in self._segments:
            ranges.append((position, segment.start))
            if segment.start in self._segments.holes:
                ranges += missing(self._segments.holes.pop(segment.start), segment.start)
            position = segment.end
        self._gaps = Gaps([*ranges, (position, self.end)])
        if not self.waiting:
            self.consumed = self.end
            self._spent = self.weight
        for segment in self._segments:
            if segment.end > self.consumed:
                for first, route in label_runs(self._segments.batch(segment).column("route")):
                    self._runs.extend(segment.start + first, route)
        self.waiting_of = self.rows_by_route(self.consumed, self.end)

    @property
    def incarnation(self) -> str:
        return self._engine.incarnation

    @property
    def waiting(self) -> int:
        """Rows that are in the journal and not yet in an outbox."""
        between = self.end - self.consumed
        return between - self._gaps.below(self.end) + self._gaps.below(self.consumed) if self._gaps else between

    @property
    def weight(self) -> int:
        """Bytes held."""
        return self._segments.weight

    @property
    def waiting_weight(self) -> int:
        """Bytes of batches with rows that wait: what the bound counts."""
        return self.weight - self._spent

    def append(self, changes: Changes, batch: Batch, route: str | None = None) -> int:
        """Add STORED rows to the write, all of this route, or of those they name; returns the offset of the first."""
        start = self.end
        self._segments.append(changes, start, batch, weight(batch))
        self.end += batch.num_rows
        runs = label_runs(batch.column("route")) if route is None else [(0, route)]
        for (first, name), (last, _) in pairwise([*runs, (batch.num_rows, "")]):
            self._runs.extend(start + first, name)
            self.waiting_of[name] = self.waiting_of.get(name, 0) + last - first
        return start

    @property
    def empty(self) -> bool:
        """Nothing waits here: whatever came is outbox rows."""
        return self.consumed == self.end

    def pass_through(self, changes: Changes, rows: int) -> None:
        """So many rows take their offsets and become outbox rows by this very write; the log must be empty."""
        self.end += rows
        self.visible = self.consumed = self.end
        self._segments.promise(changes, self.end)

    def rows_by_route(self, start: int, end: int) -> dict[str, int]:
        """How many rows of [start, end) each route has; known of those that wait."""
        found: dict[str, int] = {}
        for route, first, last in self._runs.between(start, end):
            rows = last - first
            if self._gaps:
                rows -= self._gaps.below(last) - self._gaps.below(first)
            if rows:
                found[route] = found.get(route, 0) + rows
        return found

    def publish(self, end: int | None = None) -> None:
        """What was appended below ``end`` (or so far) is safe: readers may have it."""
        end = self.end if end is None else end
        if self.visible >= end:
            return
        self.visible = end
        self._segments.merge_tail(touched_below=self.consumed)
        self.on_visible()

    def plan(self, start: int, max_rows: int, max_bytes: int) -> int:
        """Where a batch that begins at ``start`` ends: at most max_rows and max_bytes, but at least one row if there is one."""
        end, rows, size = start, 0, 0
        for index in range(self._segments.index_of(start), len(self._segments)):
            segment = self._segments[index]
            first = max(segment.start, start)
            take = min(segment.end, self.visible) - first
            if take <= 0 or rows >= max_rows or size >= max_bytes:
                break
            row_weight = segment.weight / segment.rows
            fits = min(max_rows - rows, int((max_bytes - size) / row_weight))
            if fits < take:
                return first + fits if fits or rows else first + 1
            end, rows, size = first + take, rows + take, size + int(take * row_weight)
        else:
            if rows:
                return self.visible  # beyond the last row there may be a gap
        return max(end, start)

    def read(self, start: int, end: int) -> list[tuple[int, Batch]]:
        """The rows of [start, end): (offset of the first row, STORED batch), in order, gaps between entries possible.

        Nothing is copied here, on the loop: whoever wants fewer, larger batches joins them elsewhere.
        """
        pieces: list[tuple[int, Batch]] = []
        for index in range(self._segments.index_of(start), len(self._segments)):
            segment = self._segments[index]
            if segment.start >= end:
                break
            low, high = max(segment.start, start), min(segment.end, end)
            batch = self._segments.batch(segment)
            for first, last in self._gaps.rows(low, high) if self._gaps else ((low, high),):
                pieces.append((first, rows_of(batch, first - segment.start, last - first)))
        return pieces

    @property
    def oldest(self) -> int | None:
        """When the first row that waits arrived, in microseconds since the epoch."""
        for index in range(self._segments.index_of(self.consumed), len(self._segments)):
            segment = self._segments[index]
            low = max(segment.start, self.consumed)
            found = next(self._gaps.rows(low, segment.end), None) if self._gaps else (low, segment.end)
            if found is not None:
                return received_us(self._segments.batch(segment), found[0] - segment.start)
        return None

    def consume(self, changes: Changes, end: int) -> dict[str, int]:
        """Everything below ``end`` is outbox rows now, by the same write; returns how many rows of each route it took."""
        taken = self.rows_by_route(self.consumed, end)
        for route, rows in taken.items():
            self.waiting_of[route] -= rows
        self._runs.forget(end)
        for index in range(self._segments.index_of(self.consumed), len(self._segments)):
            if self._segments[index].end > end:
                break
            self._spent += self._segments[index].weight
        self.consumed = end
        changes.later[consumed_name(self.name)] = end
        return taken

    def trim(self, changes: Changes, end: int) -> None:
        """Forget whole segments below ``end``, never beyond what was consumed."""
        limit = min(end, self.consumed)
        while len(self._segments) and self._segments[0].end <= limit:
            self._spent -= self._segments[0].weight
            self._segments.drop(changes, 0)


def consumed_name(name: str) -> Shelf:
    """Where the consumed offset of a log is kept."""
    return ("consumed", name)


class Journal:
    """The logs of a node, and the bound on all of them together."""

    def __init__(self, engine: Engine, max_bytes: int) -> None:
        self._engine = engine
        self.max_bytes = max_bytes
        self.logs: dict[str, Log] = {}
        for (_, _, name), _ in engine.states((CEILING, JOURNAL)):
            self.log(name)  # an earlier life may have left rows there

    def log(self, name: str) -> Log:
        if name not in self.logs:
            self.logs[name] = Log(name, self._engine)
        return self.logs[name]

    def waiting_of(self, route: str) -> int:
        """Rows of this route that wait, in whatever log."""
        return sum(log.waiting_of.get(route, 0) for log in self.logs.values())

    def oldest_of(self, route: str) -> int | None:
        """When the oldest row that this route may have here arrived: the first that waits in a log with rows of it."""
        found = [log.oldest for log in self.logs.values() if log.waiting_of.get(route)]
        return min((each for each in found if each is not None), default=None)

    def waiting_weight_of(self, route: str) -> int:
        """The bytes of these rows, by the share that they are of all that wait in their log."""
        return sum(
            log.waiting_weight * rows // log.waiting for log in self.logs.values() if (rows := log.waiting_of.get(route, 0))
        )

    @property
    def full(self) -> bool:
        """The door is shut while this holds: reached only when a pipeline does not read.

        Only what waits counts. A reader lets go of a batch when it plans the next one: if consumed rows could shut the door,
        no next one might ever come. So the memory is bounded by max_bytes and one batch.
        """
        return sum(log.waiting_weight for log in self.logs.values()) >= self.max_bytes
