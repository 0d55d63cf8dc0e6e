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
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow.compute as pc

from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.failpoints import passing
from bridgehead.pipeline.hops import hop_counts
from bridgehead.pipeline.landing import Landing, QueryStats
from bridgehead.pipeline.lastbatch import BatchName, LastBatch
from bridgehead.pipeline.protocol import Planned
from bridgehead.pipeline.staging import Part, Staged, Staging, joined, must_be_all
from bridgehead.storage.engine import Changes, Engine, Shelf, synced
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.outbox import Outbox

logger = logging.getLogger(__name__)

MAX_STAGED_BYTES: Final = 1 << 30
"""A driver that stages without committing is stopped here: four batches of the default size."""


@dataclass(slots=True)
class _Query:
    last: LastBatch | None = None  # committed last, if the query has a memory
    origin: int | None = None  # where its memory is rebuilt from
    pausing: bool = False  # before it goes on with new rows, it may have to finish with the old ones
    staging: Staging = field(default_factory=Staging)


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
        """``transformed``: as ``Landing`` takes it."""
        self._engine = engine
        self._journal = journal
        self._queries: dict[str, _Query] = {}
        self._max_staged_bytes = max_staged_bytes
        self.landing = Landing(engine, outboxes, transformed)
        self.epoch = epochs_above  # that of the last driver

    def new_epoch(self) -> int:
        """A new driver starts: whatever an older one staged is forgotten."""
        self.epoch += 1
        for query in self._queries.values():
            query.staging.forget(planned=None)
        return self.epoch

    def stats(self, log: str) -> QueryStats:
        return self.landing.stats(log)

    def begin(self, epoch: int, name: str, *, anew: bool = False) -> int:
        """Where the query of this log starts: the consumed offset. Nothing that an earlier one planned means anything.

        ``anew``: it has no checkpoint. If the one before had a memory, it starts where that can be rebuilt from.
        """
        log, query, stats = self._log(epoch, name), self._query(name), self.stats(name)
        query.staging.forget(planned=None)
        query.pausing = True
        if not anew or query.last is None:
            return log.consumed
        query.origin = max(query.last.origin, min(log.trimmed, query.last.end))
        lost = query.last.origin, query.origin
        stats.state_lost = lost if lost[0] < lost[1] else None
        if stats.state_lost is not None:
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
        self._query(name).staging.forget(planned=(start, end))

    def planned(self, epoch: int, name: str) -> Planned:
        """What the running batch takes in; nothing, if it was not planned: a query with a memory makes rows without any."""
        log, query = self._log(epoch, name), self._query(name)
        at = log.consumed if query.last is None else query.last.end
        start, end = query.staging.planned or (at, at)
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
        staging = self._query(name).staging
        replaced = staging.staged.get(part)
        if staging.staged_bytes - (replaced.size if replaced else 0) + staged.size > self._max_staged_bytes:
            raise RefusedError(f"more than {self._max_staged_bytes} bytes staged for {name}")
        staging.staged[part] = staged
        passing("node.staged")

    def finish(self, epoch: int, name: str, start: int, end: int, parts: list[Part]) -> None:
        """A task has staged everything of [start, end); an attempt that comes later made the same rows and replaces it."""
        self._log(epoch, name)
        self._query(name).staging.finished[start] = (end, parts)

    def commit_finished(self, epoch: int, name: str, start: int, end: int) -> bool:
        """Commit what finished tasks have staged; refused if their ranges do not cover [start, end) without a gap."""
        log = self._log(epoch, name)
        parts: list[Part] = []
        if end > log.consumed:
            staging = self._query(name).staging
            parts = staging.finished_between(name, start, end)
            must_be_all(log, start, end, staging.announced(parts))
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
            query.staging.forget(query.staging.planned if batch is None else None)
            return False
        if query.last is not None and batch is not None and behind is None and query.last.covers(start, end):
            query.staging.forget(planned=None)
            return False
        if query.last is not None and (behind is not None or start == query.last.end):
            consumed = query.last.end  # a restart moves the consumed offset over what has no rows; Spark knows nothing of that
        if start != consumed:
            raise RefusedError(f"commit of [{start}, {end}) on {name}, which is consumed up to {consumed}")
        if behind is not None and behind > 1:
            raise RefusedError(f"commit of a batch of {name} which leaves out {behind - 1}")
        outputs = joined(query.staging.announced(parts))
        changes = Changes()
        if archived is not None:
            changes.state[_archived_name(name)] = archived
        if batch is not None:
            query.last = LastBatch.after(query.last, batch, start, end, self.planned(epoch, name).hops, query.origin)
            changes.state[_last_name(name)] = asdict(query.last)
        elif query.last is not None:
            query.last = changes.state[_last_name(name)] = None  # a query without a memory has taken its place
        passing("node.commit")
        self.landing.land(log, max(end, log.consumed), outputs, changes)
        passing("node.committed")
        query.staging.forget(planned=None)
        return True

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
