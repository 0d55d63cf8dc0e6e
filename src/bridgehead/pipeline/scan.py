"""The scan of the shared log: a source with the rules pushed down into it.

No transform stands between these rows and their rules, so the task that reads a range applies them at once and stages
the result: the rows never leave their Arrow form, and Spark's JVM plans, schedules and repeats tasks without ever
turning them into rows of its own (measured: a quarter of the CPU time).

Spark asks for the offset behind a batch only when every task of that batch has succeeded. That question is the driver's
word that the batch is done, so it carries the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.source import JournalRange, JournalReader, Offset
from bridgehead.pipeline.task import Stager, task_name

SCANNED_DDL: Final = "rows bigint, parts int"
SCANNED: Final = pa.schema([pa.field("rows", pa.int64()), pa.field("parts", pa.int32())])
"""What Spark sees of a task's work: how many rows, in how many parts."""


class ScanReader(JournalReader):
    """Also takes the option rules: those of every route in the log, as JSON."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._rules = {rules.route: rules for rules in map(RouteRules.from_json, json.loads(options["rules"]))}
        self._clients = any(rules.asks_for_client for rules in self._rules.values())
        self._committed = -1  # everything below was committed, as far as this reader knows

    def initialOffset(self) -> Offset:
        offset = super().initialOffset()
        self._committed = offset["offset"]
        return offset

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        done = start["offset"]
        if done > self._committed:
            self._node.commit(self._log, self._committed, done)
            self._node.release(self._log, done)
            self._committed = done
        return super().latestOffset(start, limit)

    def read(self, partition: JournalRange) -> Iterator[Batch]:
        stager = Stager(self._node, self._log, str(task_name()))
        rows = 0
        wanted = partition.incarnation, self._log, partition.start, partition.end
        for first, batch in self._node.read_routed(*wanted, clients=self._clients):
            stager.add(batch, first, self._rules)
            rows += batch.num_rows
        manifest = stager.finish()
        self._node.finish(self._log, partition.start, partition.end, manifest)
        yield pa.RecordBatch.from_pylist([{"rows": rows, "parts": len(manifest)}], schema=SCANNED)

    def commit(self, end: Offset) -> None:
        """Nothing to do: rows are released with their commit."""


class ScanSource(DataSource):  # type: ignore[misc]
    """``spark.readStream.format("bridgehead-scan")``"""

    @classmethod
    def name(cls) -> str:
        return "bridgehead-scan"

    def schema(self) -> str:
        return SCANNED_DDL

    def streamReader(self, schema: StructType) -> ScanReader:
        return ScanReader(self.options)


def rules_option(rules: tuple[RouteRules, ...]) -> str:
    return json.dumps([asdict(rule) for rule in rules])
