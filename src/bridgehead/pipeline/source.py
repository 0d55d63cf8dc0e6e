"""The journal as a Spark streaming source: a log as the message table, what a transform sees as ``messages``.

Offsets are {"incarnation": ..., "offset": n}. A new query begins at the consumed offset, so its checkpoint is disposable; one
with a memory begins where that can be rebuilt from.
The reader lives in one process beside the driver, ``read`` runs in tasks: it is stateless and asks the node for its own
range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import MESSAGE_DDL
from bridgehead.pipeline.client import NodeClient, node_client

MIN_ROWS_PER_TASK: Final = 2_000
"""Below this a second task costs more than it saves."""

WAIT: Final = 2.0
"""Seconds that a look for new rows waits at the node, instead of coming back every few milliseconds."""

Offset = dict[str, Any]


@dataclass
class JournalRange(InputPartition):  # type: ignore[misc]
    """What one task reads: the rows of [start, end)."""

    incarnation: str
    start: int
    end: int


class JournalReader(DataSourceStreamReader):  # type: ignore[misc]
    """Plans batches of one log. Options: address, epoch, log, max_rows, max_bytes, tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._address = options["address"]
        self._epoch = int(options["epoch"])
        self._log = options["log"]
        self._max_rows = int(options["max_rows"])
        self._max_bytes = int(options["max_bytes"])
        self.tasks = int(options["tasks"])

    @property
    def _node(self) -> NodeClient:
        return node_client(self._address, self._epoch)

    def initialOffset(self) -> Offset:
        incarnation, offset = self._node.begin(self._log, anew=True)
        return {"incarnation": incarnation, "offset": offset}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 2**31 - 1
        end = self._node.latest(self._log, start["offset"], rows, self._max_bytes, WAIT)
        return {**start, "offset": end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = start["offset"], end["offset"]
        if first == last:
            return []
        self._node.plan(self._log, first, last)
        return [JournalRange(start["incarnation"], low, high) for low, high in split(first, last, self.tasks)]

    def read(self, partition: JournalRange) -> Iterator[Batch]:
        return self._node.read_messages(partition.incarnation, self._log, partition.start, partition.end)

    def commit(self, end: Offset) -> None:
        self._node.release(self._log, end["offset"])


class RangeReader(DataSourceReader):  # type: ignore[misc]
    """Reads one range of a log, once. Options: those of JournalReader, and incarnation, start, end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._stream = JournalReader(options)
        self._incarnation = options["incarnation"]
        self._range = int(options["start"]), int(options["end"])

    def partitions(self) -> Sequence[InputPartition]:
        return [JournalRange(self._incarnation, *bounds) for bounds in split(*self._range, self._stream.tasks)]

    def read(self, partition: JournalRange) -> Iterator[Batch]:
        return self._stream.read(partition)


class JournalSource(DataSource):  # type: ignore[misc]
    """``spark.readStream.format("bridgehead")``"""

    @classmethod
    def name(cls) -> str:
        return "bridgehead"

    def schema(self) -> str:
        return MESSAGE_DDL

    def streamReader(self, schema: StructType) -> JournalReader:
        return JournalReader(self.options)

    def reader(self, schema: StructType) -> RangeReader:
        return RangeReader(self.options)


def split(start: int, end: int, tasks: int) -> list[tuple[int, int]]:
    """[start, end) in at most so many contiguous ranges of about the same size, none needlessly below the minimum."""
    count = max(1, min(tasks, (end - start) // MIN_ROWS_PER_TASK))
    bounds = [start + (end - start) * i // count for i in range(count + 1)]
    return list(pairwise(bounds))
