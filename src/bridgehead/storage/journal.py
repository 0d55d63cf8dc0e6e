"""The journal: append-only logs of accepted messages, read by offset range, trimmed when their reader has moved on.

One log per Spark query. Offsets never repeat within an incarnation; a range may have holes. ``consumed`` is the offset below
which everything has become outbox rows; only a commit moves it, in the same write as those rows. What was consumed may stay
to be read again, as long as the ``Retention`` of the journal lets it:

    trimmed ──── retained ──── released ──── held by its reader ──── consumed ──── waiting ──── end
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from bridgehead.columns.batches import Batch, first_since, newest_us, oldest_us, received_us, rows_of, weight
from bridgehead.columns.labels import Labels
from bridgehead.errors import NotRetainedError
from bridgehead.storage.engine import CEILING, Changes, Engine, Shelf
from bridgehead.storage.gaps import Gaps, missing
from bridgehead.storage.owners import Owners
from bridgehead.storage.retention import NOTHING, Retention
from bridgehead.storage.segments import Segment, Segments

SHARED: Final = "shared"
"""The log of all routes without a transform."""

JOURNAL: Final = "journal"
"""The rows of a log are on the shelf (JOURNAL, name)."""

PARTITION: Final = 0


class Log:
    """One append-only log. Everything here runs on the node's event loop."""

    def __init__(self, name: str, engine: Engine, retention: Retention = NOTHING) -> None:
        self.name = name
        self._engine = engine
        self._retention = retention
        self._segments = Segments(engine, (JOURNAL, name))
        self.end = 0  # the offset the next row gets
        self.visible = 0  # readers see rows below this: those whose promise is kept
        self.consumed = 0  # rows below this have become outbox rows
        self.trimmed = 0  # rows below this are not here any more
        self.released = 0  # below this the log's own reader never asks again
        self._spent = 0  # of the bytes held: those of batches whose rows are all consumed
        self.retained_loose = 0  # of these, what is only in RAM though there is a disk
        self._gaps = Gaps()  # offsets without a row: what a restart leaves
        self._owners = Owners()  # whose the rows are that wait
        self.waiting_of: dict[str, int] = {}  # rows that wait, by route
        self.on_visible: Callable[[], None] = lambda: None  # more rows may be read
        self._curious: list[Callable[[], None]] = []  # who else wants to hear of that, once
        if self._segments.ceiling:
            self._recover()
        retention.add(self)

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
        first = self._segments[0].start if len(self._segments) else self.consumed
        noted = self._engine.state(trimmed_name(self.name))
        self.trimmed = first if noted is None else min(noted, first)
        self.released = min(self._engine.state(released_name(self.name)) or 0, self.consumed)
        for segment in self._segments:
            if segment.end > self.consumed:
                self._owners.extend(segment.start, Labels.of(self._segments.batch(segment).column("route")))
        self.waiting_of = self.rows_by_route(self.consumed, self.end)

    @property
    def incarnation(self) -> str:
        return self._engine.incarnation

    @property
    def durable(self) -> bool:
        """Whether rows here outlive the process."""
        return self._engine.durable

    @property
    def waiting(self) -> int:
        """Rows that are in the journal and not yet in an outbox."""
        return self.rows_between(self.consumed, self.end)

    @property
    def weight(self) -> int:
        """Bytes held."""
        return self._segments.weight

    @property
    def waiting_weight(self) -> int:
        """Bytes of batches with rows that wait: what the bound counts."""
        return self.weight - self._spent

    @property
    def stored_waiting_weight(self) -> int:
        """Of that, what is on a disk."""
        return self.waiting_weight - (self._segments.loose - self.retained_loose)

    @property
    def retains(self) -> bool:
        """Whether rows stay here after they were consumed."""
        return self._retention.on

    @property
    def retained(self) -> int:
        """Rows that are here though they were consumed."""
        return self._segments.rows - self.waiting

    @property
    def retained_weight(self) -> int:
        """Bytes of batches whose rows are all consumed."""
        return self._spent

    def append(self, changes: Changes, batch: Batch, routes: Labels | None = None) -> int:
        """Add STORED rows to the write; returns the offset of the first. ``routes``: what the rows say, if somebody has it."""
        start = self.end
        self._add(changes, batch)
        if routes is None:
            routes = Labels.of(batch.column("route"))
        self._owners.extend(start, routes)
        for name, rows in routes.counted():
            self.waiting_of[name] = self.waiting_of.get(name, 0) + rows
        return start

    def _add(self, changes: Changes, batch: Batch) -> Segment:
        segment = self._segments.append(changes, self.end, batch, weight(batch))
        self.end = segment.end
        if self._retention.on:
            segment.newest = received_us(batch, batch.num_rows - 1)
        return segment

    @property
    def empty(self) -> bool:
        """Nothing waits here: whatever came is outbox rows."""
        return self.consumed == self.end

    def pass_through(self, changes: Changes, batch: Batch) -> None:
        """STORED rows take their offsets and become outbox rows by this very write; the log must be empty.

        They are here afterwards only to be read again.
        """
        if self._retention.on:
            self._spend(self._add(changes, batch))
            self.consumed = changes.later[consumed_name(self.name)] = self.end
            self.trim(changes, self.end)
        else:
            self.end += batch.num_rows
            self.visible = self.consumed = self.end
            self._segments.promise(changes, self.end)
            if len(self._segments):
                self.trim(changes, self.end)
            self._note_trimmed(changes, self.end)

    def rows_by_route(self, start: int, end: int) -> dict[str, int]:
        """How many rows of [start, end) each route has; known of those that wait."""
        return self._owners.counts(start, end)

    def publish(self, end: int | None = None) -> None:
        """What was appended below ``end`` (or so far) is safe: readers may have it."""
        end = self.end if end is None else end
        if self.visible >= end:
            return
        self.visible = end
        self._segments.merge_tail(touched_below=self.consumed)
        if self._retention.on:
            self._segments.merge_below(self.consumed)
        self.on_visible()
        curious, self._curious = self._curious, []
        for tell in curious:
            tell()

    def when_more(self, tell: Callable[[], None]) -> None:
        """Call once, when more rows may be read."""
        self._curious.append(tell)

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

    def rows_between(self, start: int, end: int) -> int:
        """How many rows [start, end) has."""
        return end - start - (self._gaps.below(end) - self._gaps.below(start) if self._gaps else 0)

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
        self._owners.forget(end)
        for index in range(self._segments.index_of(self.consumed), len(self._segments)):
            if self._segments[index].end > end:
                break
            self._spend(self._segments[index])
        self.consumed = end
        changes.later[consumed_name(self.name)] = end
        if self._retention.on:
            self._retention.sweep(changes)
        return taken

    def _spend(self, segment: Segment) -> None:
        """All its rows are consumed."""
        self._spent += segment.weight
        self.retained_loose += segment.loose

    def trim(self, changes: Changes, end: int) -> None:
        """The log's reader never asks below ``end`` again: what was consumed there goes, or is retained for others."""
        self.released = max(self.released, min(end, self.consumed))
        if self._retention.on:
            changes.later[released_name(self.name)] = self.released
            self._retention.sweep(changes)
        else:
            while self.spare is not None:
                self.drop_first(changes)

    def hold(self, start: int) -> None:
        """The log's reader begins again at ``start``: what is still there from there on stays until it lets go of it."""
        self.released = min(self.released, start)

    @property
    def spare(self) -> Segment | None:
        """The first batch, if nothing but retention keeps it."""
        first = self._segments[0] if len(self._segments) else None
        return first if first is not None and first.end <= min(self.released, self.consumed) else None

    def newest(self, segment: Segment) -> int:
        """When the last row of a batch arrived, in microseconds since the epoch."""
        if segment.newest is None:  # found at a start
            segment.newest = newest_us(self._segments.batch(segment))
        return segment.newest

    def drop_first(self, changes: Changes) -> None:
        first = self._segments[0]
        self._spent -= first.weight
        self.retained_loose -= first.loose
        self._segments.drop(changes, 0)
        self._note_trimmed(changes, first.end)

    def _note_trimmed(self, changes: Changes, end: int) -> None:
        """Where rows are kept to be read again, a later life still knows which were there."""
        self.trimmed = end
        if not self._engine.durable:
            return
        if self._retention.on:
            changes.state[trimmed_name(self.name)] = end
        elif self._engine.state(trimmed_name(self.name)) is not None:
            changes.state[trimmed_name(self.name)] = None

    # -- reading again ------------------------------------------------------------------------------------------------

    def read_again(self, start: int, end: int) -> list[tuple[int, Batch]]:
        """As ``read``, for those who are not the log's own reader: what is gone is said."""
        if start < min(self.trimmed, end):
            raise NotRetainedError(self.name, start, min(self.trimmed, end))
        return self.read(start, min(end, self.visible))

    def offset_at(self, time_us: int) -> int:
        """The first offset here whose row arrived at this time or later; that of the next row if there is none.

        Found by halves, so it takes for granted that the clock was not set back meanwhile.
        """
        found = bisect_left(range(len(self._segments)), time_us, key=lambda i: self.newest(self._segments[i]))
        if found == len(self._segments):
            return self.visible
        segment = self._segments[found]
        return min(segment.start + first_since(self._segments.batch(segment), time_us), self.visible)

    @property
    def earliest_us(self) -> int | None:
        """When the first row that is still here arrived."""
        return oldest_us(self._segments.batch(self._segments[0])) if len(self._segments) else None


def consumed_name(name: str) -> Shelf:
    """Where the consumed offset of a log is kept."""
    return ("consumed", name)


def released_name(name: str) -> Shelf:
    """Where it is kept how far the reader of a log has let go, if rows are retained behind it."""
    return ("released", name)


def trimmed_name(name: str) -> Shelf:
    """Where it is kept below which offset a log that retains rows has lost them."""
    return ("trimmed", name)


class Journal:
    """The logs of a node, and the bounds on all of them together."""

    def __init__(self, engine: Engine, max_bytes: int, retention: Retention = NOTHING) -> None:
        self._engine = engine
        self.max_bytes = max_bytes
        self.retention = retention
        self.logs: dict[str, Log] = {}
        for (_, _, name), _ in engine.states((CEILING, JOURNAL)):
            self.log(name)  # an earlier life may have left rows there

    @property
    def incarnation(self) -> str:
        """Names the life of the offsets of all logs."""
        return self._engine.incarnation

    def log(self, name: str) -> Log:
        if name not in self.logs:
            self.logs[name] = Log(name, self._engine, self.retention)
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
    def stored_waiting_weight(self) -> int:
        """Bytes on a disk that are to be written to it once more, as rows of an outbox."""
        return sum(log.stored_waiting_weight for log in self.logs.values())

    @property
    def full(self) -> bool:
        """The door is shut while this holds: reached only when a pipeline does not read.

        Only what waits counts. A reader lets go of a batch when it plans the next one: if consumed rows could shut the door,
        no next one might ever come. So the memory is bounded by max_bytes and one batch.
        """
        return sum(log.waiting_weight for log in self.logs.values()) >= self.max_bytes
