"""The writers of ``node``: rows are published in the node's local broker, each batch of a streaming query exactly once.

Tasks stage their rows at the node; the driver's ``commit`` names the query, the batch and every part, and the node publishes
all of them and notes the batch in one write. A batch that Spark runs again is then done already. ``df.write`` has no such name
unless it is given one (txnAppId, txnVersion): whoever runs it again publishes again.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from bridgehead.clock import monotonic, now_us
from bridgehead.columns.batches import Batch, checksum, concat
from bridgehead.columns.schema import WIRE
from bridgehead.errors import RefusedError
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.client import guest_client
from bridgehead.spark.nodeoptions import NodeSink
from bridgehead.spark.sinkrows import SinkRows

PART_BYTES: Final = 16 << 20
"""A task stages what it has at this size, and goes on with the next part."""
ASK_EVERY: Final = 0.5
"""Seconds between two questions whether there is room now."""

QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
"""What Spark tells the tasks of a streaming query: both are the same when a batch is run again."""


@dataclass
class StagedParts(WriterCommitMessage):  # type: ignore[misc]
    """What one task has staged, and in whose name."""

    app: str
    version: int
    parts: list[dict[str, Any]] = field(default_factory=list)


class _Publishing:
    """What both writers do: stage in tasks, submit beside the driver."""

    def __init__(self, sink: NodeSink, access: Access) -> None:
        self._sink = sink
        self._access = access

    def _stage(self, app: str, version: int, batches: Iterator[Batch]) -> StagedParts:
        task = TaskContext.get()
        assert task is not None, "a writer writes in a task"
        staged = StagedParts(app, version)
        made = SinkRows(self._sink, f"{app}:{version}:{task.partitionId()}")
        waiting: list[Batch] = []
        for batch in batches:
            if batch.num_rows:
                waiting.append(made.messages(batch, now_us()).select(WIRE.names))
            if sum(each.nbytes for each in waiting) >= PART_BYTES:
                self._put(staged, task, waiting)
                waiting = []
        if waiting:
            self._put(staged, task, waiting)
        return staged

    def _put(self, staged: StagedParts, task: TaskContext, rows: list[Batch]) -> None:
        part = [concat(rows)]
        name = f"{task.partitionId():06}/{task.taskAttemptId()}/{len(staged.parts):06}"
        guest_client(self._access).stage_submission(staged.app, staged.version, name, part)
        staged.parts.append({"name": name, "rows": part[0].num_rows, "checksum": checksum(part)})

    def _submit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """Returns when everything is published and safe."""
        staged = [each for each in messages if isinstance(each, StagedParts)]
        if not staged:
            return
        parts = sorted((part for each in staged for part in each.parts), key=lambda part: str(part["name"]))
        app, version = staged[0].app, staged[0].version
        client = self._sink.client_id or f"spark-{app}"
        deadline = monotonic() + self._sink.give_up_after
        while guest_client(self._access).submit(app, version, parts, client) is None:
            if monotonic() >= deadline:
                rows = sum(part["rows"] for part in parts)
                raise RefusedError(f"{rows} messages found no room in the node for {self._sink.give_up_after} seconds")
            threading.Event().wait(ASK_EVERY)

    def _abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        for app, version in {(each.app, each.version) for each in messages if isinstance(each, StagedParts)}:
            guest_client(self._access).abort(app, version)


class NodeStreamWriter(_Publishing, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``"""

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "a writer writes in a task"
        return self._stage(str(task.getLocalProperty(QUERY)), int(str(task.getLocalProperty(BATCH))), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._submit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


class NodeWriter(_Publishing, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``: made once, so that its name is the same in all attempts of its tasks."""

    def __init__(self, sink: NodeSink, access: Access) -> None:
        super().__init__(sink, access)
        self._app = sink.txn_app_id or f"write-{secrets.token_hex(8)}"
        self._version = sink.txn_version or 0

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        return self._stage(self._app, self._version, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._submit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)
