"""The gate between journal and outbox: exactly once, by offset range.

A driver gets an epoch when it starts; everything an older one says is refused, so an orphan can do no harm. Its tasks
stage parts (rows of one route, in journal order); its commit names the range [start, end) and every part. The commit is
accepted if start is the consumed offset, a no-op if the range was consumed before, refused otherwise. Outbox rows and
the consumed offset are one write; forwarders see the rows when it is synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bridgehead.columns.batches import Batch, checksum
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.outbox import Outbox

MAX_STAGED_BYTES: Final = 1 << 30
"""A driver that stages without committing is stopped here: four batches of the default size."""


@dataclass(frozen=True, slots=True)
class Part:
    """Staged rows of one route: named by the task that made them, joined by ``order`` (offset of their first row)."""

    name: str
    route: str
    order: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Staged:
    """A part as it arrived. Measured by whoever received it, off the loop: checksums of large parts take a while."""

    batches: list[Batch]
    rows: int
    size: int
    checksum: int

    @staticmethod
    def of(batches: list[Batch]) -> Staged:
        return Staged(batches, sum(b.num_rows for b in batches), sum(b.nbytes for b in batches), checksum(batches))


@dataclass(slots=True)
class QueryStats:
    """What the node knows of one query, for status and the demo's table."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    last_rows: int = 0


@dataclass(slots=True)
class _Query:
    planned: tuple[int, int] | None = None
    staged: dict[str, Staged] = field(default_factory=dict)
    finished: dict[int, tuple[int, list[Part]]] = field(default_factory=dict)  # by its start: a task's range and parts
    stats: QueryStats = field(default_factory=QueryStats)

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
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._outboxes = outboxes
        self._queries: dict[str, _Query] = {}
        self._max_staged_bytes = max_staged_bytes
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

    def begin(self, epoch: int, name: str) -> int:
        """Where the query of this log starts: the consumed offset."""
        return self._log(epoch, name).consumed

    def latest(self, epoch: int, name: str, start: int, max_rows: int, max_bytes: int) -> int:
        return self._log(epoch, name).plan(start, max_rows, max_bytes)

    def plan(self, epoch: int, name: str, start: int, end: int) -> None:
        """The reader says which range the running batch covers; the commit of this batch must name it.

        What was staged before belongs to a batch that failed: it is forgotten, even if the range is the same.
        """
        self._log(epoch, name)
        self._query(name).forget(planned=(start, end))

    def planned(self, epoch: int, name: str) -> tuple[int, int]:
        self._log(epoch, name)
        planned = self._query(name).planned
        if planned is None:
            raise RefusedError(f"no batch of {name} is planned")
        return planned

    def read(self, epoch: int, incarnation: str, name: str, start: int, end: int) -> list[tuple[int, Batch]]:
        log = self._log(epoch, name)
        if incarnation != log.incarnation:
            raise StaleEpochError(f"offsets of incarnation {incarnation} mean nothing here")
        return log.read(start, end)

    def stage(self, epoch: int, name: str, part: str, staged: Staged) -> None:
        """Keep a task's rows until the commit; a task that runs again replaces its part."""
        self._log(epoch, name)
        query = self._query(name)
        replaced = query.staged.get(part)
        if query.staged_bytes - (replaced.size if replaced else 0) + staged.size > self._max_staged_bytes:
            raise RefusedError(f"more than {self._max_staged_bytes} bytes staged for {name}")
        query.staged[part] = staged

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
            _must_be_all(log, start, end, parts)
        return self.commit(epoch, name, start, end, parts)

    def commit(self, epoch: int, name: str, start: int, end: int, parts: Iterable[Part]) -> bool:
        """True if the rows are in the outboxes now, False if they were before; anything else is refused."""
        log = self._log(epoch, name)
        query = self._query(name)
        if end <= log.consumed:
            query.forget(query.planned)
            return False
        if start != log.consumed:
            raise RefusedError(f"commit of [{start}, {end}) on {name}, which is consumed up to {log.consumed}")
        outputs = []
        for part in sorted(parts, key=lambda p: p.order):
            staged = query.staged.get(part.name)
            if staged is None:
                raise RefusedError(f"part {part.name} was announced and never staged")
            if (staged.rows, staged.checksum) != (part.rows, part.checksum):
                raise RefusedError(f"part {part.name} is not what was announced")
            outputs += [(part.route, batch) for batch in staged.batches]
        self.land(log, end, outputs)
        query.forget(planned=None)
        return True

    def land(self, log: Log, end: int, outputs: list[tuple[str, Batch]]) -> None:
        """Outbox rows and the consumed offset in one write; used by the commit and by the inline engine."""
        for route, _ in outputs:
            if route not in self._outboxes:
                raise RefusedError(f"no route {route}")  # before any outbox was touched
        changes = Changes()
        self._land(changes, log.name, log.consume(changes, end), outputs)
        self._engine.write(changes)
        self.on_commit(log.name)

    def pass_through(self, changes: Changes, log: Log, route: str, stored: Batch, batch: Batch) -> None:
        """Rows of a log in which nothing waits land in the write that takes them in: one write and one sync, not two.

        ``batch`` is what the rules made of the ``stored`` ones.
        """
        log.pass_through(changes, stored)
        self._land(changes, log.name, {route: batch.num_rows}, [(route, batch)])

    def _land(self, changes: Changes, log: str, consumed: dict[str, int], outputs: list[tuple[str, Batch]]) -> None:
        stats = self._query(log).stats
        self._count_consumed(consumed, outputs)
        for route, batch in outputs:
            self._outboxes[route].land(changes, batch)
            stats.rows_out += batch.num_rows
        stats.batches += 1
        stats.last_rows = sum(consumed.values())  # not the length of the range: it may have holes
        stats.rows_in += stats.last_rows
        landed = [self._outboxes[route] for route in dict.fromkeys(route for route, _ in outputs)]
        changes.when_safe += [partial(outbox.landed, outbox.end) for outbox in landed]

    def _count_consumed(self, consumed: dict[str, int], outputs: list[tuple[str, Batch]]) -> None:
        """Each route's ledger takes its rows out of the journal; which of them are safe, their outbox rows say."""
        safe = dict.fromkeys(consumed, 0)
        for route, batch in outputs:
            safe[route] = safe.get(route, 0) + self._outboxes[route].ledger.safe_rows(batch)
        for route, rows in consumed.items():
            self._outboxes[route].ledger.consume(rows, safe[route])

    def release(self, epoch: int, name: str, end: int) -> None:
        """The reader will never ask below ``end`` again: trim."""
        changes = Changes()
        self._log(epoch, name).trim(changes, end)
        self._engine.write(changes)

    def _log(self, epoch: int, name: str) -> Log:
        if epoch != self.epoch:
            raise StaleEpochError(f"epoch {epoch} is over, {self.epoch} runs")
        log = self._journal.logs.get(name)
        if log is None:
            raise RefusedError(f"no log {name}")
        return log

    def _query(self, name: str) -> _Query:
        return self._queries.setdefault(name, _Query())


def _must_be_all(log: Log, start: int, end: int, parts: list[Part]) -> None:
    """Without a transform as many rows of each route come out of a batch as went in."""
    brought: dict[str, int] = {}
    for part in parts:
        brought[part.route] = brought.get(part.route, 0) + part.rows
    if brought != (expected := log.rows_by_route(start, end)):
        raise RefusedError(f"the tasks of {log.name} brought {brought} of [{start}, {end}), which holds {expected}")
