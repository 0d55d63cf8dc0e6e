"""The gate between journal and outbox: exactly once, by offset range.

A driver gets an epoch when it starts; everything an older one says is refused, so an orphan can do no harm. Its tasks
stage parts (rows by route, in journal order); its commit names the range [start, end) and every part. The commit is
accepted if start is the consumed offset, a no-op if the range was consumed before, refused otherwise. Outbox rows and
the consumed offset are one write; forwarders see the rows when it is synced.

A query with a memory (windows, duplicates, any state) may make rows in a batch that takes none in, and Spark repeats such a
batch by its number. Its commit therefore names the query and the number too: what was committed last is kept in the same
write, and a number that is not above it is a no-op.

A query whose checkpoint is lost, or of another life of the journal, rebuilds its memory from the rows that are retained. Its
batches are cut where the last committed one began and ended, so that its watermark is the same at these places; what it makes
of rows that were consumed before is outbox rows already, and left out. Rows that are not retained any more are missing in its
memory: that is said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from bridgehead import clock
from bridgehead.columns.batches import Batch, checksum, concat
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.failpoints import passing
from bridgehead.pipeline.hops import hop_counts
from bridgehead.pipeline.protocol import Planned
from bridgehead.pipeline.rules import split_routes
from bridgehead.storage.engine import Changes, Engine, Shelf, synced
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.outbox import Outbox

logger = logging.getLogger(__name__)

MAX_STAGED_BYTES: Final = 1 << 30
"""A driver that stages without committing is stopped here: four batches of the default size."""

JOINED_BYTES: Final = 1 << 16
"""Parts whose batches are no larger than this, on average, are joined by route at a commit: a copy costs less than it saves."""


@dataclass(frozen=True, slots=True)
class Part:
    """Staged rows of some routes: named by the task that made them, joined by ``order`` (offset of their first row)."""

    name: str
    order: int
    rows: int
    checksum: int
    reason: str | None = None  # why these rows are no messages: they become dead letters


@dataclass(frozen=True, slots=True)
class Output:
    """Rows on their way into the outbox of a route, or to its dead letters."""

    route: str
    batch: Batch
    reason: str | None = None


class BatchName(NamedTuple):
    """A batch of a query with a memory. The query keeps its name as long as its checkpoint."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What is kept of a query with a memory: which batch it committed last, where that ended, and what it may remember."""

    query: str
    number: int
    end: int
    hops: int  # the highest hop count that it has taken in
    origin: int = 0  # its memory is of the rows from here on
    data_start: int = 0  # where the last batch that took rows in began
    idle: bool = False  # whether a batch without rows came behind that one

    def covers(self, start: int, end: int) -> bool:
        """Whether what another query makes of these rows has been committed: it rebuilds its memory."""
        return end <= self.end and (start < self.end or (start == end and self.idle))

    def behind(self, batch: BatchName) -> int | None:
        """How many batches behind this one it is; None if it is of another query: a new checkpoint begins anywhere."""
        return batch.number - self.number if batch.query == self.query else None


@dataclass(frozen=True, slots=True)
class Staged:
    """A part as it arrived. Measured by whoever received it, off the loop: checksums of large parts take a while."""

    batches: list[Batch]
    routes: list[str]  # of each batch, if they go to routes
    rows: int
    size: int
    checksum: int

    @staticmethod
    def of(batches: list[Batch], routes: list[str] | None = None) -> Staged:
        routes = [] if routes is None else routes
        rows, size = sum(b.num_rows for b in batches), sum(b.get_total_buffer_size() for b in batches)
        return Staged(batches, routes, rows, size, checksum(batches, routes))

    def by_route(self) -> Iterator[tuple[str, Batch]]:
        return zip(self.routes, self.batches, strict=True)


@dataclass(slots=True)
class QueryStats:
    """What the node knows of one query, for status and the demo's table."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    last_rows: int = 0
    state_lost: tuple[int, int] | None = None  # offsets whose rows the query has forgotten, for they are not retained


@dataclass(slots=True)
class _Query:
    last: LastBatch | None = None  # committed last, if the query has a memory
    origin: int | None = None  # where its memory is rebuilt from
    pausing: bool = False  # before it goes on with new rows, it may have to finish with the old ones
    planned: tuple[int, int] | None = None
    staged: dict[str, Staged] = field(default_factory=dict)
    finished: dict[int, tuple[int, list[Part]]] = field(default_factory=dict)  # by its start: a task's range and parts
    stats: QueryStats = field(default_factory=QueryStats)

    def announced(self, parts: Iterable[Part]) -> list[tuple[Part, Staged]]:
        """These parts as they were staged, in order; refused if one is not what was announced."""
        found = []
        for part in sorted(parts, key=lambda p: p.order):
            staged = self.staged.get(part.name)
            if staged is None:
                raise RefusedError(f"part {part.name} was announced and never staged")
            if (staged.rows, staged.checksum) != (part.rows, part.checksum):
                raise RefusedError(f"part {part.name} is not what was announced")
            found.append((part, staged))
        return found

    def forget(self, planned: tuple[int, int] | None) -> None:
        """What was staged is of no use any more."""
        self.planned, self.staged, self.finished = planned, {}, {}

    @property
    def staged_bytes(self) -> int:
        return sum(part.size for part in self.staged.values())


class Gate:
    """Used from the node's event loop only; the Flight service brings its calls there."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        outboxes: Mapping[str, Outbox],
        max_staged_bytes: int = MAX_STAGED_BYTES,
        epochs_above: int = 0,
        transformed: Container[str] = (),
    ) -> None:
        """``transformed``: the logs between which and the outboxes a transform stands: rows in and out are not the same."""
        self._engine = engine
        self._journal = journal
        self._outboxes = outboxes
        self._queries: dict[str, _Query] = {}
        self._max_staged_bytes = max_staged_bytes
        self._transformed = transformed
        self.epoch = epochs_above  # that of the last driver
        self.on_commit: Callable[[str], None] = lambda log: None  # rows of this log are in the outboxes

    def new_epoch(self) -> int:
        """A new driver starts: whatever an older one staged is forgotten."""
        self.epoch += 1
        for query in self._queries.values():
            query.forget(planned=None)
        return self.epoch

    def stats(self, log: str) -> QueryStats:
        return self._query(log).stats

    def begin(self, epoch: int, name: str, *, anew: bool = False) -> int:
        """Where the query of this log starts: the consumed offset. Nothing that an earlier one planned means anything.

        ``anew``: it has no checkpoint. If the one before had a memory, it starts where that can be rebuilt from.
        """
        log, query = self._log(epoch, name), self._query(name)
        query.forget(planned=None)
        query.pausing = True
        if not anew or query.last is None:
            return log.consumed
        query.origin = max(query.last.origin, min(log.trimmed, query.last.end))
        lost = query.last.origin, query.origin
        query.stats.state_lost = lost if lost[0] < lost[1] else None
        if query.stats.state_lost is not None:
            logger.warning("%s: the state of its transform is lost for offsets [%d, %d): they are not retained", name, *lost)
        if query.origin >= query.last.end:
            return log.consumed
        log.hold(query.origin)
        return query.origin

    def idle(self, epoch: int, name: str) -> bool:
        """Whether everything that came is outbox rows: no row that comes from now on can be older than now."""
        return self._log(epoch, name).empty

    def latest(self, epoch: int, name: str, start: int, max_rows: int, max_bytes: int) -> int:
        """Where a batch from ``start`` ends. A query that rebuilds its memory gets the last committed batch as it was, in one:
        in two, the second would make rows that the committed one has not made, and they would count as committed."""
        log, query = self._log(epoch, name), self._query(name)
        end = log.plan(start, max_rows, max_bytes)
        if query.last is None or start >= query.last.end:
            return end
        query.pausing = True
        return min(end, query.last.data_start) if start < query.last.data_start else query.last.end

    def pauses(self, epoch: int, name: str, start: int) -> bool:
        """Whether a query that asks from here on is first to finish with what it has, by a batch without rows if need be."""
        self._log(epoch, name)
        query = self._query(name)
        due = query.pausing and query.last is not None and start == query.last.end
        query.pausing = query.pausing and not due
        return due

    def plan(self, epoch: int, name: str, start: int, end: int) -> None:
        """The reader says which range the running batch covers; the commit of this batch must name it.

        What was staged before belongs to a batch that failed: it is forgotten, even if the range is the same.
        """
        self._log(epoch, name)
        self._query(name).forget(planned=(start, end))

    def planned(self, epoch: int, name: str) -> Planned:
        """What the running batch takes in; nothing, if it was not planned: a query with a memory makes rows without any."""
        log, query = self._log(epoch, name), self._query(name)
        at = log.consumed if query.last is None else query.last.end
        start, end = query.planned or (at, at)
        hops, qos = query.last.hops if query.last is not None else 0, 0
        for _, rows in log.read(start, end) if end > start else ():
            hops = max(hops, int(hop_counts(rows.column("user_properties")).max()))
            qos = max(qos, pc.max(rows.column("qos")).as_py())
        return Planned(start, end, hops, qos)

    def read(self, epoch: int, incarnation: str, name: str, start: int, end: int) -> list[tuple[int, Batch]]:
        log = self._log(epoch, name)
        if incarnation != log.incarnation:
            raise StaleEpochError(f"offsets of incarnation {incarnation} mean nothing here")
        passing("node.read")
        return log.read(start, end)

    def stage(self, epoch: int, name: str, part: str, staged: Staged) -> None:
        """Keep a task's rows until the commit; a task that runs again replaces its part."""
        self._log(epoch, name)
        query = self._query(name)
        replaced = query.staged.get(part)
        if query.staged_bytes - (replaced.size if replaced else 0) + staged.size > self._max_staged_bytes:
            raise RefusedError(f"more than {self._max_staged_bytes} bytes staged for {name}")
        query.staged[part] = staged
        passing("node.staged")

    def finish(self, epoch: int, name: str, start: int, end: int, parts: list[Part]) -> None:
        """A task has staged everything of [start, end); an attempt that comes later made the same rows and replaces it."""
        self._log(epoch, name)
        self._query(name).finished[start] = (end, parts)

    def commit_finished(self, epoch: int, name: str, start: int, end: int) -> bool:
        """Commit what finished tasks have staged; refused if their ranges do not cover [start, end) without a gap."""
        log = self._log(epoch, name)
        finished = self._query(name).finished
        parts: list[Part] = []
        position = start
        while position < end and end > log.consumed:
            if position not in finished:
                raise RefusedError(f"no task of {name} has finished the range from {position}")
            position, own = finished[position]
            parts += own
        if position > end:
            raise RefusedError(f"a task of {name} finished beyond {end}")
        if end > log.consumed:
            _must_be_all(log, start, end, self._query(name).announced(parts))
        return self.commit(epoch, name, start, end, parts)

    def commit(
        self,
        epoch: int,
        name: str,
        start: int,
        end: int,
        parts: Iterable[Part],
        batch: BatchName | None = None,
        archived: Any = None,
    ) -> bool:
        """True if the rows are in the outboxes now, False if they were before; anything else is refused.

        ``archived``: the files of this batch, which belong to the archive of the log from this write on.
        """
        log = self._log(epoch, name)
        query = self._query(name)
        consumed = log.consumed
        behind = query.last.behind(batch) if query.last is not None and batch is not None else None
        if end <= consumed if batch is None else behind is not None and behind <= 0:
            # What a batch without rows behind this one takes in, nobody plans: a range that is done would be taken for it.
            query.forget(query.planned if batch is None else None)
            return False
        if query.last is not None and batch is not None and behind is None and query.last.covers(start, end):
            query.forget(planned=None)
            return False
        if query.last is not None and (behind is not None or start == query.last.end):
            consumed = query.last.end  # a restart moves the consumed offset over what has no rows; Spark knows nothing of that
        if start != consumed:
            raise RefusedError(f"commit of [{start}, {end}) on {name}, which is consumed up to {consumed}")
        if behind is not None and behind > 1:
            raise RefusedError(f"commit of a batch of {name} which leaves out {behind - 1}")
        outputs = _joined(query.announced(parts))
        changes = Changes()
        if archived is not None:
            changes.state[_archived_name(name)] = archived
        if batch is not None:
            query.last = self._following(query, batch, start, end, self.planned(epoch, name).hops)
            changes.state[_last_name(name)] = asdict(query.last)
        elif query.last is not None:
            query.last = changes.state[_last_name(name)] = None  # a query without a memory has taken its place
        passing("node.commit")
        self.land(log, max(end, log.consumed), outputs, changes)
        passing("node.committed")
        query.forget(planned=None)
        return True

    @staticmethod
    def _following(query: _Query, batch: BatchName, start: int, end: int, hops: int) -> LastBatch:
        last = query.last
        if query.origin is not None and (last is None or last.query != batch.query):
            origin = query.origin
        else:
            origin = start if last is None else last.origin
        if end > start or last is None:
            return LastBatch(*batch, end, hops, origin, data_start=start)
        return LastBatch(*batch, end, hops, origin, last.data_start, idle=True)

    def land(self, log: Log, end: int, outputs: list[Output], changes: Changes | None = None) -> None:
        """Outbox rows and the consumed offset in one write; used by the commit and by the inline engine."""
        for output in outputs:
            if output.route not in self._outboxes:
                raise RefusedError(f"no route {output.route}")  # before any outbox was touched
        changes = Changes() if changes is None else changes
        safe = self._safe_in(log, end) if log.name in self._transformed else _safe_out(self._outboxes, outputs)
        self._land(changes, log.name, log.consume(changes, end), safe, outputs)
        self._engine.write(changes)
        for outbox in {output.route: self._outboxes[output.route] for output in outputs if output.reason}.values():
            outbox.dead.taken()
        self.on_commit(log.name)

    def rehome(self, log: Log, end: int, going: list[tuple[Log, str, Batch]], staying: list[Output]) -> None:
        """Some rows of a log move to others, the rest become outbox rows: one write. Who has moved still waits."""
        changes = Changes()
        taken = log.consume(changes, end)
        for home, route, rows in going:
            home.append(changes, rows)
            taken[route] -= rows.num_rows
            changes.when_safe.append(partial(home.publish, home.end))
        consumed = {route: rows for route, rows in taken.items() if rows}
        self._land(changes, log.name, consumed, _safe_out(self._outboxes, staying), staying)
        log.trim(changes, end)
        self._engine.write(changes)

    def pass_through(self, changes: Changes, log: Log, stored: Batch, outputs: list[Output]) -> None:
        """Rows of a log in which nothing waits land in the write that takes them in: one write and one sync, not two.

        ``outputs`` is what the rules made of the ``stored`` ones.
        """
        log.pass_through(changes, stored)
        consumed = {output.route: output.batch.num_rows for output in outputs}
        self._land(changes, log.name, consumed, _safe_out(self._outboxes, outputs), outputs)

    def _land(self, changes: Changes, log: str, consumed: dict[str, int], safe: dict[str, int], outputs: list[Output]) -> None:
        """``consumed`` and ``safe``: how many rows of each route leave the journal, and how many of these are on the disk."""
        stats = self._query(log).stats
        made = log in self._transformed
        for route, rows in consumed.items():
            ledger = self._outboxes[route].ledger
            ledger.consume(rows, safe.get(route, 0))
            if made:
                ledger.transform_in(rows, safe.get(route, 0))
                ledger.write(changes)
        for output in outputs:
            outbox, rows = self._outboxes[output.route], output.batch
            if made:
                outbox.ledger.transform_out(rows.num_rows, outbox.ledger.safe_rows(rows))
            if output.reason is None:
                outbox.land(changes, rows)
            else:
                outbox.land_dead(changes, rows, output.reason, clock.now_us())
            stats.rows_out += rows.num_rows
        stats.batches += 1
        stats.last_rows = sum(consumed.values())  # not the length of the range: it may have holes
        stats.rows_in += stats.last_rows
        landed = [self._outboxes[route] for route in dict.fromkeys(output.route for output in outputs)]
        changes.when_safe += [partial(outbox.landed, outbox.end) for outbox in landed]

    def _safe_in(self, log: Log, end: int) -> dict[str, int]:
        """How many of the rows that a transform takes in are on the disk: what comes out of it says nothing about that."""
        safe: dict[str, int] = {}
        for _, rows in log.read(log.consumed, end) if end > log.consumed else ():
            for route, own, _ in split_routes(rows):
                safe[route] = safe.get(route, 0) + self._outboxes[route].ledger.safe_rows(own)
        return safe

    def archived(self, epoch: int, name: str) -> Any:
        """The files that the last commit with files has named, or None."""
        self._log(epoch, name)
        return self._engine.state(_archived_name(name))

    async def synced(self) -> None:
        """Return when all commits so far are safe."""
        await synced(self._engine)

    def release(self, epoch: int, name: str, end: int) -> None:
        """The reader will never ask below ``end`` again: trim."""
        changes = Changes()
        self._log(epoch, name).trim(changes, end)
        self._engine.write(changes)
        passing("node.trimmed")

    def _log(self, epoch: int, name: str) -> Log:
        if epoch != self.epoch:
            raise StaleEpochError(f"epoch {epoch} is over, {self.epoch} runs")
        log = self._journal.logs.get(name)
        if log is None:
            raise RefusedError(f"no log {name}")
        return log

    def _query(self, name: str) -> _Query:
        query = self._queries.get(name)
        if query is None:
            query = self._queries[name] = _Query()
            last = self._engine.state(_last_name(name))
            if last is not None:
                query.last = LastBatch(**last)
        return query


def _last_name(name: str) -> Shelf:
    """Where the last batch of a query with a memory is kept."""
    return ("batch", name)


def _archived_name(name: str) -> Shelf:
    """Where the files of the last batch of a log with an archive are named."""
    return ("archived", name)


def _safe_out(outboxes: Mapping[str, Outbox], outputs: list[Output]) -> dict[str, int]:
    """How many rows of each route are on the disk; without a transform what comes out says it of what went in."""
    safe: dict[str, int] = {}
    for output in outputs:
        safe[output.route] = safe.get(output.route, 0) + outboxes[output.route].ledger.safe_rows(output.batch)
    return safe


def _joined(parts: list[tuple[Part, Staged]]) -> list[Output]:
    """What was staged, in order; small batches of a route in several parts become one, for each takes its own way out."""
    if any(staged.size > JOINED_BYTES * len(staged.batches) for _, staged in parts):
        return [Output(*rows, part.reason) for part, staged in parts for rows in staged.by_route()]
    runs: dict[tuple[str, str | None], list[Batch]] = {}
    for part, staged in parts:
        for route, rows in staged.by_route():
            runs.setdefault((route, part.reason), []).append(rows)
    return [Output(route, concat(run), reason) for (route, reason), run in runs.items()]


def _must_be_all(log: Log, start: int, end: int, parts: list[tuple[Part, Staged]]) -> None:
    """Without a transform as many rows of each route come out of a batch as went in."""
    brought: dict[str, int] = {}
    for _, staged in parts:
        for route, rows in staged.by_route():
            brought[route] = brought.get(route, 0) + rows.num_rows
    if brought != (expected := log.rows_by_route(start, end)):
        raise RefusedError(f"the tasks of {log.name} brought {brought} of [{start}, {end}), which holds {expected}")
