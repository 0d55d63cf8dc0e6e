"""The writers of ``url``: a task publishes its rows, and has succeeded when the broker has acknowledged all of them.

At least once: a task that is repeated publishes its rows again, each with the same id.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch
from bridgehead.spark.options import Sink
from bridgehead.spark.publisher import publish
from bridgehead.spark.sinkrows import SinkRows

QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
"""What Spark tells the tasks of a streaming query: both are the same when a batch is run again."""


@dataclass
class Published(WriterCommitMessage):  # type: ignore[misc]
    """What one task has brought to the broker."""

    messages: int


class BrokerWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``: made once, so that its id is the same in all attempts of its tasks."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._id = secrets.token_hex(8)

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        return write_rows(self._sink, iterator, f"{self._id}:{_task().partitionId()}")


class BrokerStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``"""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        return write_rows(self._sink, iterator, f"{query}:{batch}:{task.partitionId()}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Everything is at the broker already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays published; the next attempt brings it with the same ids."""


def write_rows(sink: Sink, batches: Iterator[Batch], beginning: str) -> Published:
    rows = SinkRows(sink, beginning)
    made = (rows.messages(batch, now_us()) for batch in batches if batch.num_rows)
    first = next(made, None)
    if first is None:
        return Published(0)  # no connection for nothing

    def every() -> Iterator[Batch]:
        yield first
        yield from made

    return Published(asyncio.run(publish(sink, every())))


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "a writer writes in a task"
    return task
