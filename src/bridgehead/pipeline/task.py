"""What a Spark task does with its rows: the rules of each route, then stage the result at the node.

What is staged is listed in a manifest, one entry a part. A part has rows of any number of routes, a batch for each. Rows of one
route stay in journal order: a task's rows are a contiguous range, its parts carry the offset of their first row, and the node
joins parts by it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from bridgehead.columns.batches import Batch, checksum, concat
from bridgehead.columns.labels import Labels, joined
from bridgehead.failpoints import passing
from bridgehead.pipeline.client import NodeClient, node_client
from bridgehead.pipeline.protocol import MAX_PART_BYTES
from bridgehead.pipeline.rules import RouteRules, together

MANIFEST_DDL: Final = "name string, `order` bigint, rows bigint, checksum bigint, reason string"
MANIFEST: Final = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("order", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


@dataclass(slots=True)
class _Pending:
    """Rows that are not staged yet, with the routes of each batch."""

    order: int
    routes: list[Labels] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    size: int = 0

    def by_route(self) -> dict[str, Batch]:
        """Put in order once, then cut: the pieces share their memory, for they leave at once."""
        routes, rows = joined(self.routes), concat(self.batches)
        places = routes.places()
        if len(places) == 1:
            return {places[0][0]: rows}
        rows = rows.take(pa.array(np.concatenate([own for _, own in places])))
        firsts = accumulate((len(own) for _, own in places), initial=0)
        return {name: rows.slice(first, len(own)) for (name, own), first in zip(places, firsts, strict=False)}


class Stager:
    """Collects one task's rows and stages them in parts within the bounds."""

    def __init__(self, node: NodeClient, log: str, task: str) -> None:
        settle_worker()
        self._node = node
        self._log = log
        self._task = task
        self._pending: dict[str | None, _Pending] = {}  # by the reason of rows that are to be dead letters
        self._manifest: list[dict[str, Any]] = []

    def add(self, rows: Batch, first_offset: int, rules: Mapping[str, RouteRules]) -> None:
        """Rows of any routes, consecutive or with their offsets; ``first_offset`` is that of their first, and rises."""
        for routes, batch, reason in together(rows, self._log, first_offset, rules):
            self.put(routes, batch, first_offset, reason)

    def put(self, routes: Labels, batch: Batch, order: int, reason: str | None = None) -> None:
        """OUTBOX rows of these routes, or rows that are to be their dead letters; ``order`` rises."""
        pending = self._pending.setdefault(reason, _Pending(order))
        pending.routes.append(routes)
        pending.batches.append(batch)
        pending.size += batch.nbytes
        if pending.size >= MAX_PART_BYTES:
            self._stage(reason)

    def finish(self) -> list[dict[str, Any]]:
        """Stage what is left; the manifest of all."""
        for reason in list(self._pending):
            self._stage(reason)
        return self._manifest

    def _stage(self, reason: str | None) -> None:
        pending = self._pending.pop(reason)
        part = pending.by_route()
        name = f"{self._task}/{len(self._manifest)}"
        passing("worker.read")
        self._node.stage(self._log, name, part)
        passing("worker.staged")
        self._manifest.append(listed(name, part, pending.order, reason))


def listed(name: str, part: Mapping[str, Batch], order: int, reason: str | None = None) -> dict[str, Any]:
    """A part in the manifest."""
    return {
        "name": name,
        "order": order,
        "rows": sum(batch.num_rows for batch in part.values()),
        "checksum": checksum(list(part.values()), list(part)),
        "reason": reason,
    }


@dataclass(frozen=True, slots=True)
class StageRows:
    """The function given to mapInArrow; plain values, so that it travels."""

    address: str
    epoch: int
    log: str
    rules: tuple[RouteRules, ...]

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        rules = {rules.route: rules for rules in self.rules}
        stager = Stager(node_client(self.address, self.epoch), self.log, str(task_name()))
        for batch in batches:
            if batch.num_rows:
                stager.add(batch, batch.column("journal_offset")[0].as_py(), rules)
        yield pa.RecordBatch.from_pylist(stager.finish(), schema=MANIFEST)


@cache
def settle_worker() -> None:
    """Once a worker process: what it has imported by now is never garbage, and pyspark looks for garbage after every task.

    Without this each task ends with some 20 ms of looking through modules.
    """
    gc.collect()
    gc.freeze()


class TaskName(NamedTuple):
    """Names one attempt of one task of one batch, so that two attempts never share a part."""

    batch: str
    partition: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.batch}/{self.partition}/{self.attempt}"


def task_name() -> TaskName:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskName("local", 0, 0)
    batch = context.getLocalProperty("streaming.sql.batchId")
    return TaskName(str(batch), context.partitionId(), context.taskAttemptId())
