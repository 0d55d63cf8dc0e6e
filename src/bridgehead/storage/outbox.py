"""The outbox: one queue per route. Rows land, are polled in order with a marker, and leave when acknowledged.

What is in flight is the set of marked rows, never a number kept beside it; whoever waits asks ``has_waiting``, so no
wake-up can be missed. A reset returns marked rows to waiting; they are polled again first, because they come first.

When the queue is full its strategy says what gives way: ``discard`` keeps the oldest rows, ``discard-oldest`` the newest
and whatever is on the wire already; with ``refuse`` nothing gives way here, because whoever brings messages is asked to
wait before they enter the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, concat, received_us, row_ends, row_weights, rows_of, weight
from bridgehead.storage.deadletters import DeadLetters, Deaths
from bridgehead.storage.donenotes import OUTBOX, DoneNotes
from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.marks import DONE, MARKED, WAITING, Marks, Seqs
from bridgehead.storage.polled import Polled
from bridgehead.storage.segments import Segment, Segments

POLL_BYTES: Final = 1024 * 1024
"""What one poll hands out at most, so that a sender's turn stays short whatever the payloads are."""

PIECE_BYTES: Final = 4 * POLL_BYTES
"""What is stored as one batch at the most, but for a row that is larger. A batch is read as a whole and stays in RAM as long as
a row of it does: of one as large as a batch of Spark may be, each poll would bring all of it."""

QUEUE_FULL: Final = "queue-full"
"""The reason of rows that a full queue has not kept, old ones or new ones."""

TOO_OLD: Final = "too-old"
"""The reason of rows that were older than the route's maxAge when their turn came."""

BURY_ROWS: Final = 64
"""Rows given up in one write: a window of large payloads is not copied at once."""

GIVE_WAY_ROWS: Final = 4096
"""Rows looked at in one step when old ones give way: a batch may have many more than are too many."""

Strategy = Literal["discard", "discard-oldest", "refuse"]


class Holder(Protocol):
    """Who has polled rows and not sent them: with ``discard-oldest`` these give way first, being the oldest."""

    def held(self) -> Seqs:
        """The numbers of the oldest rows it holds, in order: some, none if it holds none."""

    def let_go(self, seqs: Seqs) -> None:
        """Forget these, the first ones of them."""


class Outbox:
    """The queue of one route. Used from the node's event loop only."""

    def __init__(
        self,
        route: str,
        engine: Engine,
        max_rows: int,
        max_bytes: int,
        ledger: Ledger | None = None,
        strategy: Strategy = "discard",
        shelf: Shelf | None = None,
    ) -> None:
        """``shelf``: where its rows are, if it is the queue of something else than a route."""
        self.route = route
        self.strategy = strategy
        self.ledger = Ledger(route) if ledger is None else ledger
        self._engine = engine
        shelf = shelf or (OUTBOX, route)
        self._segments = Segments(engine, shelf)
        self._marks = Marks()
        self._notes = DoneNotes(engine, shelf)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.end = 0  # the sequence number the next row gets
        self.visible = 0  # rows below this may be polled: those whose landing is safe
        self.cursor = 0  # no row below this is waiting
        self._touched = 0  # no row from here on was ever polled
        self.on_waiting: Callable[[], None] = lambda: None
        self.on_left: Callable[[], None] = lambda: None  # rows have left: there may be room again
        self.holder: Holder | None = None
        self._landing: dict[int, Batch] = {}  # by their start: batches that may not be written yet, where these may be dropped
        self._safe: dict[int, npt.NDArray[np.bool_]] = {}  # by the segment's start, if mixed: which rows are on the disk
        if self._segments.ceiling:
            self._recover()
        self.ledger.found_in_outbox(self.depth)

    def _recover(self) -> None:
        """Find what an earlier life has left: everything but the rows that were done. Markers do not survive:
        what was in flight waits again. The packet ids of QoS 2 belong to the uplink: it marks what needs no PUBLISH any more.
        """
        self.end = self.visible = self._touched = self._segments.ceiling
        changes = Changes()
        self._marks.recover(changes, self._segments, self._notes)
        for index in reversed(range(len(self._segments))):
            if self._marks.all_done(self._segments[index]):
                self._leave(changes, index)
        if changes.drops or changes.notes:
            self._engine.write(changes)
        self.cursor = self.first

    @property
    def entered(self) -> int:
        return self.ledger.entered

    @property
    def delivered(self) -> int:
        return self.ledger.delivered

    @property
    def dropped(self) -> dict[str, int]:
        """By reason."""
        return self.ledger.dropped

    @property
    def dead_lettered(self) -> dict[str, int]:
        """By reason."""
        return self.ledger.dead_lettered

    @property
    def depth(self) -> int:
        """Rows here, waiting or marked."""
        return self._segments.rows - self._marks.done

    @property
    def in_flight(self) -> int:
        return self._marks.marked

    @property
    def weight(self) -> int:
        """Bytes of the batches that are here, with their done rows."""
        return self._segments.weight

    @property
    def live_weight(self) -> int:
        """Bytes of the rows that are here; of a batch with done rows the share of the others."""
        return self._segments.weight - self._marks.done_weight

    @property
    def oldest(self) -> int | None:
        """When the first row that is still here arrived, in microseconds since the epoch."""
        if not len(self._segments):
            return None
        segment = self._segments[0]
        return received_us(self._segments.batch(segment), int(self._marks.here(segment)[0]))

    @property
    def has_waiting(self) -> bool:
        return self.cursor < self.visible

    @property
    def first(self) -> int:
        """No row below this number is here."""
        return self._segments[0].start if len(self._segments) else self.end

    def land(self, changes: Changes, batch: Batch) -> int:
        """Add OUTBOX rows to the write, as many as the limits and the strategy allow. Returns how many entered."""
        self.ledger.enter(batch.num_rows, self.ledger.safe_rows(batch))
        size = weight(batch)
        if self.depth + batch.num_rows > self.max_rows or self.live_weight + size > self.max_bytes:
            batch = self._within_limits(changes, batch, size)
            size = weight(batch)
        for piece in _pieces(batch, size):
            self._segments.append(changes, self.end, piece, size if piece is batch else weight(piece))
            if self.strategy == "discard-oldest":
                self._landing[self.end] = piece
            self.end += piece.num_rows
        self.ledger.write(changes)
        return int(batch.num_rows)

    def _within_limits(self, changes: Changes, batch: Batch, size: int) -> Batch:
        """What of these rows enters now that not everything has room."""
        if self.strategy == "refuse":
            return batch
        first, last = 0, batch.num_rows
        if self.strategy == "discard":
            last = self._room(batch)
        else:
            first = self._make_room(changes, batch, size)
        for over in (batch.slice(0, first), batch.slice(last)):
            self.ledger.drop(QUEUE_FULL, over.num_rows, self.ledger.safe_rows(over))
        return batch.slice(first, last - first)

    def _room(self, batch: Batch) -> int:
        """How many leading rows may enter: those in front of which there is room for one more row and for a byte."""
        rows = self.max_rows - self.depth
        within = int(np.searchsorted(row_weights(batch)[:-1], self.max_bytes - self.live_weight))
        return max(min(rows, within), 0)

    def _make_room(self, changes: Changes, batch: Batch, size: int) -> int:
        """Drop the oldest rows that are not on the wire, as many as are too many.

        Returns how many are still too many: the leading rows of the batch itself.
        """
        rows: int = self.depth + batch.num_rows - self.max_rows
        size += self.live_weight - self.max_bytes
        while True:
            oldest, state = self._oldest()
            if not len(oldest):
                within = int(np.searchsorted(row_weights(batch), size, side="right")) - 1
                return max(min(max(rows, within), len(batch)), 0)
            segment = self._segments[self._segments.index_of(int(oldest[0]))]
            each = segment.weight / segment.rows
            count = min(max(rows, int(size / each)), len(oldest))
            if count <= 0:
                return 0
            behind = int(oldest[count - 1]) + 1
            if state == WAITING:
                self.cursor = behind
            elif self.holder is not None:
                self.holder.let_go(oldest[:count])
            self._touched = max(self._touched, behind)
            self.ledger.drop(QUEUE_FULL, *self._set(changes, oldest[:count], state, DONE))
            rows, size = rows - count, size - int(count * each)

    def _oldest(self) -> tuple[Seqs, int]:
        """The oldest rows that are not on the wire, and their state: some of one batch, none if there are none."""
        held = self.holder.held() if self.holder is not None else np.zeros(0, np.int64)
        waiting = self._first_waiting()
        if not len(held) or not len(waiting):
            return (held, MARKED) if len(held) else (waiting, WAITING)
        if held[0] < waiting[0]:
            return held[: np.searchsorted(held, waiting[0])], MARKED
        return waiting[: np.searchsorted(waiting, held[0])], WAITING

    def _first_waiting(self) -> Seqs:
        """The oldest rows that wait: some of one batch."""
        for index in range(self._segments.index_of(self.cursor), len(self._segments)):
            segment = self._segments[index]
            low = max(self.cursor - segment.start, 0)
            marks = self._marks.known(segment)
            if marks is None:
                waiting = np.arange(low, min(low + GIVE_WAY_ROWS, segment.rows))
            else:
                waiting = np.flatnonzero(marks[low:] == WAITING)[:GIVE_WAY_ROWS] + low
            if len(waiting):
                return waiting + segment.start
        return np.zeros(0, np.int64)

    def landed(self, end: int | None = None) -> None:
        """What landed below ``end`` (or so far) is safe: merge small batches and say that something waits."""
        self.visible = max(self.visible, self.end if end is None else end)
        self._landing.clear()
        # Not the cursor: a reset moves it back, and batches behind it that were polled before have markers.
        self._segments.merge_tail(touched_below=self._touched)
        if self.has_waiting:
            self.on_waiting()

    def refuse(self, reason: str, rows: int) -> None:
        """So many rows came here, never were anywhere else, and are not kept: they count as entered, and as dropped."""
        self.ledger.enter(rows, 0)
        self.ledger.drop(reason, rows, 0)

    def poll(self, max_rows: int, max_bytes: int = POLL_BYTES) -> Polled | None:
        """Mark and return the next consecutive waiting rows of one batch, oldest first; one row at least."""
        index = self._segments.index_of(self.cursor)
        while index < len(self._segments):
            segment = self._segments[index]
            if segment.start >= self.visible:
                break
            marks = self._marks.of(segment)[: self.visible - segment.start]
            low = max(self.cursor, segment.start) - segment.start
            waiting = marks[low:] == WAITING
            if waiting.any():
                low += int(np.argmax(waiting))
                blocked = marks[low : low + max_rows] != WAITING
                count = int(np.argmax(blocked)) if blocked.any() else len(blocked)
                batch = rows_of(self._segments.batch(segment), low, count)
                if segment.weight > max_bytes:
                    count = _rows_within(batch, max_bytes)
                marks[low : low + count] = MARKED
                self.cursor = segment.start + low + count
                self._touched = max(self._touched, self.cursor)
                return Polled(segment.start + low, rows_of(batch, 0, count))
            self.cursor = min(segment.end, self.visible)
            index += 1
        self.cursor = self.visible
        return None

    def poll_behind(self, start: int, max_rows: int) -> tuple[Polled | None, int]:
        """The same for rows from a number on, whatever waits before it; and from where on to ask the next time."""
        waiting, self.cursor = self.cursor, max(self.cursor, start)
        polled = self.poll(max_rows)
        behind, self.cursor = self.cursor, waiting
        return polled, behind

    def rows(self, seqs: Seqs) -> Batch:
        """Rows that are here, by number, in the order asked for."""
        return concat([batch.take(at) for batch, at in self._pieces(seqs)])

    def holds(self, seqs: Seqs) -> npt.NDArray[np.bool_]:
        """Which of these rows, in rising order, are here, waiting or marked."""
        here = np.zeros(len(seqs), np.bool_)
        position = 0
        while position < len(seqs):
            index = self._segments.index_of(int(seqs[position]))
            if index == len(self._segments):
                break
            segment = self._segments[index]
            position = max(int(np.searchsorted(seqs, segment.start)), position)
            until = int(np.searchsorted(seqs, segment.end))
            marks = self._marks.known(segment)
            here[position:until] = True if marks is None else marks[seqs[position:until] - segment.start] != DONE
            position = until
        return here

    def mark(self, seqs: Seqs) -> None:
        """These rows are in flight since an earlier life."""
        self._set(Changes(), seqs, WAITING, MARKED)

    def pieces(self) -> Iterator[tuple[int, Batch]]:
        """Everything that is here as (number of the first row, rows); what an earlier life has lost is null."""
        return ((segment.start, self._segments.batch(segment)) for segment in self._segments)

    def acknowledge(self, seqs: Seqs, changes: Changes | None = None) -> None:
        """These rows are delivered and leave the outbox; a number that is not marked (any more) is ignored.

        ``changes``: in this write, which is somebody else's; without it in one of their own.
        """
        self._done(seqs, self.ledger.deliver, changes)

    def give_up(self, changes: Changes) -> None:
        """Nobody will ask for this queue again: it leaves nothing behind."""
        self._notes.give_up(changes)
        self._segments.give_up(changes)
        self._marks.clear()
        self._safe.clear()
        self.cursor = self.visible = self.end

    def drop(self, seqs: Seqs, reason: str) -> None:
        """These rows will never be delivered: they leave the outbox, counted by their reason."""
        self._done(seqs, partial(self.ledger.drop, reason))

    @cached_property
    def dead(self) -> DeadLetters:
        """Where rows go that are given up; most outboxes never have any."""
        return DeadLetters(self.route, self._engine)

    def bury(self, deaths: Deaths, now_us: int) -> None:
        """These rows are given up: they leave the outbox and become dead letters in one write, some rows at a time."""
        for first in range(0, len(deaths.seqs), BURY_ROWS):
            part = deaths.part(first, first + BURY_ROWS)
            part = part.only(self._are_marked(part.seqs))
            if not len(part.seqs):
                continue
            changes = Changes()
            self.dead.take(changes, self.rows(part.seqs), part, now_us)
            for reason, seqs in part.by_reason():
                self.ledger.dead_letter(reason, *self._set(changes, seqs, MARKED, DONE))
            self.ledger.write(changes)
            self._engine.write(changes)
            self.dead.taken()
        self.on_left()

    def land_dead(self, changes: Changes, batch: Batch, reason: str, now_us: int) -> None:
        """Rows that are no messages count as entered, and are dead letters in this write; ``dead.taken`` follows it."""
        safe = self.ledger.safe_rows(batch)
        self.ledger.enter(batch.num_rows, safe)
        deaths = Deaths(np.zeros(batch.num_rows, np.int64), [reason] * batch.num_rows, [0] * batch.num_rows)
        self.dead.take(changes, batch, deaths, now_us)
        self.ledger.dead_letter(reason, batch.num_rows, safe)
        self.ledger.write(changes)

    def _are_marked(self, seqs: Seqs) -> list[bool]:
        found = []
        for seq in seqs.tolist():
            index = self._segments.index_of(seq)
            segment = self._segments[index] if index < len(self._segments) else None
            marks = self._marks.known(segment) if segment is not None and segment.start <= seq else None
            found.append(segment is not None and marks is not None and bool(marks[seq - segment.start] == MARKED))
        return found

    def topics(self, seqs: Seqs) -> list[str]:
        """The topics of rows that are here, by number, without their payloads."""
        return [topic for batch, at in self._pieces(seqs) for topic in batch.column("topic").take(at).to_pylist()]

    def _pieces(self, seqs: Seqs) -> Iterator[tuple[Batch, pa.Array]]:
        """The batches that hold these rows, and their places there."""
        position = 0
        while position < len(seqs):
            segment = self._segments[self._segments.index_of(int(seqs[position]))]
            inside = (seqs[position:] >= segment.start) & (seqs[position:] < segment.end)
            count = len(inside) if inside.all() else int(np.argmin(inside))
            yield self._segments.batch(segment), pa.array(seqs[position : position + count] - segment.start)
            position += count

    def reset(self, seqs: Seqs) -> None:
        """These rows were not delivered: waiting again, in their old place."""
        if self._set(Changes(), seqs, MARKED, WAITING)[0]:
            self.cursor = min(self.cursor, int(seqs.min()))
            self.on_waiting()

    def _done(self, seqs: Seqs, count: Callable[[int, int], None], write: Changes | None = None) -> None:
        """Marked rows leave, counted in the same write."""
        changes = Changes() if write is None else write
        moved, safe = self._set(changes, seqs, MARKED, DONE)
        count(moved, safe)
        if changes.drops or changes.notes:
            self.ledger.write(changes)
            if write is None:
                self._engine.write(changes)
        if moved:
            self.on_left()

    def _set(self, changes: Changes, seqs: Seqs, old: int, new: int) -> tuple[int, int]:
        """Move rows from one state to another, segment by segment; segments that are all done leave.

        Returns how many rows moved, and how many of these are on the disk.
        """
        moved = safe = 0
        seqs = np.sort(seqs)
        position = 0
        while position < len(seqs):
            index = self._segments.index_of(int(seqs[position]))
            if index == len(self._segments):
                break
            segment = self._segments[index]
            until = int(np.searchsorted(seqs, segment.end))
            rows = seqs[position:until] - segment.start
            position = max(until, position + 1)
            rows = rows[rows >= 0]
            if segment.start >= self._touched or not len(rows):
                continue  # numbers of rows that are gone: nothing here is marked
            rows = self._marks.move(segment, rows, old, new)
            moved += len(rows)
            safe += self._safe_rows(segment, rows)
            if new == DONE and self._marks.all_done(segment):
                self._leave(changes, index)
            elif new == DONE and segment.stored and len(rows):
                self._notes.note(changes, segment, rows)
        return moved, safe

    def _safe_rows(self, segment: Segment, rows: Seqs) -> int:
        """How many of these rows of a segment are on the disk."""
        if not segment.mixed:
            return len(rows) if segment.stored else 0
        safe = self._safe.get(segment.start)
        if safe is None or len(safe) != segment.rows:  # a merge makes a longer one
            batch = self._landing.get(segment.start)
            if batch is None:
                batch = self._segments.batch(segment)
            qos = batch.column("qos").to_numpy(zero_copy_only=False)
            safe = self._safe[segment.start] = qos > 0
        return int(np.count_nonzero(safe[rows]))

    def _leave(self, changes: Changes, index: int) -> None:
        """All rows of a segment are done."""
        segment = self._segments[index]
        self._marks.forget(segment)
        self._safe.pop(segment.start, None)
        self._notes.leave(changes, segment)
        self._segments.drop(changes, index)


def _pieces(batch: Batch, size: int) -> Iterator[Batch]:
    """A batch that weighs so much, as it is stored."""
    if size <= PIECE_BYTES:
        if batch.num_rows:
            yield batch
        return
    first, weights = 0, row_weights(batch)
    while first < batch.num_rows:
        behind = int(np.searchsorted(weights, weights[first] + PIECE_BYTES, side="right")) - 1
        count = max(behind - first, 1)
        yield batch.slice(first, count)
        first += count


def _rows_within(batch: Batch, max_bytes: int) -> int:
    """How many leading rows bring at most so many bytes; one at least."""
    return max(int(np.searchsorted(row_ends(batch), max_bytes, side="right")) - 1, 1)
