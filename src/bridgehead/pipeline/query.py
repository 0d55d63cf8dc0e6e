"""The forms of a streaming query over a log without a transform.

- scan: read, rules and staging are one task; Spark's sink has nothing left to do.
- messages: the log as the message table, rules and staging behind it in ``mapInArrow``; the driver collects the manifest
  and commits in ``foreachBatch``. One action only: a second one would read the source again.

Both begin at the consumed offset, so what they write down is never read again: progress is tracked lazily. The message table
is also what a transform stands on (``transformquery``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig
from bridgehead.pipeline.scan import ScanSource, rules_option
from bridgehead.pipeline.source import JournalSource
from bridgehead.pipeline.task import MANIFEST_DDL, StageRows

_LAZY_PROGRESS: Final = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": str(24 * 3600 * 1000),
}


def register(spark: Any) -> None:
    spark.dataSource.register(JournalSource)
    spark.dataSource.register(ScanSource)


def warm_up(spark: Any, tasks: int) -> None:
    """Start the Python workers and let them import what they need, so that the first row does not wait for it."""

    def imported(batches: Iterator[Batch]) -> Iterator[Batch]:
        from bridgehead.pipeline.task import settle_worker

        settle_worker()
        yield from batches

    spark.range(0, tasks, 1, tasks).mapInArrow(imported, "id bigint").collect()


def start_scan(spark: Any, config: JobConfig, query: QueryConfig, tasks: int, checkpoint: str) -> Any:
    given = {**options(config, query, tasks), "rules": rules_option(query.rules)}
    return (
        spark.readStream.format(ScanSource.name())
        .options(**given)
        .load()
        .writeStream.format("noop")
        .options(**_LAZY_PROGRESS, checkpointLocation=checkpoint)
        .queryName(query.log)
        .start()
    )


def start_messages(spark: Any, config: JobConfig, query: QueryConfig, tasks: int, checkpoint: str, node: NodeClient) -> Any:
    def commit(manifest: Any, number: int) -> None:
        parts = [row.asDict() for row in manifest.collect()]
        planned = node.planned(query.log)
        node.commit(query.log, planned.start, planned.end, parts)

    stage = StageRows(config.access.address, config.epoch, query.log, query.rules)
    return (
        messages_of(spark, config, query, tasks)
        .mapInArrow(stage.__call__, MANIFEST_DDL)
        .writeStream.foreachBatch(commit)
        .option("checkpointLocation", checkpoint)
        .queryName(query.log)
        .start()
    )


def messages_of(spark: Any, config: JobConfig, query: QueryConfig, tasks: int) -> Any:
    """The log as the message table."""
    return spark.readStream.format(JournalSource.name()).options(**options(config, query, tasks)).load()


def options(config: JobConfig, query: QueryConfig, tasks: int) -> dict[str, str]:
    return {
        "address": config.access.address,
        "epoch": str(config.epoch),
        "log": query.log,
        "max_rows": str(config.max_rows),
        "max_bytes": str(config.max_bytes),
        "tasks": str(tasks),
    }
