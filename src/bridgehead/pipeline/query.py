"""The two forms of a streaming query over a log.

- scan: for a log without a transform. Read, rules and staging are one task; Spark's sink has nothing left to do.
- messages: the log as the message table, rules and staging behind it in ``mapInArrow``; the driver collects the manifest
  and commits in ``foreachBatch``. What a transform stands on. One action only: a second one would read the source again.

Both begin at the consumed offset, so what they write down is never read again: progress is tracked lazily.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig
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


def start_scan(spark: Any, config: JobConfig, tasks: int, checkpoint: str) -> Any:
    options = {**_options(config, tasks), "rules": rules_option(config.rules)}
    return (
        spark.readStream.format(ScanSource.name())
        .options(**options)
        .load()
        .writeStream.format("noop")
        .options(**_LAZY_PROGRESS, checkpointLocation=checkpoint)
        .queryName(config.log)
        .start()
    )


def start_messages(spark: Any, config: JobConfig, tasks: int, checkpoint: str, node: NodeClient) -> Any:
    def commit(manifest: Any, batch_id: int) -> None:
        parts = [row.asDict() for row in manifest.collect()]
        start, end = node.planned(config.log)
        node.commit(config.log, start, end, parts)

    stage = StageRows(config.access.address, config.epoch, config.log, config.rules)
    return (
        spark.readStream.format(JournalSource.name())
        .options(**_options(config, tasks))
        .load()
        .mapInArrow(stage.__call__, MANIFEST_DDL)
        .writeStream.foreachBatch(commit)
        .option("checkpointLocation", checkpoint)
        .queryName(config.log)
        .start()
    )


def _options(config: JobConfig, tasks: int) -> dict[str, str]:
    return {
        "address": config.access.address,
        "epoch": str(config.epoch),
        "log": config.log,
        "max_rows": str(config.max_rows),
        "max_bytes": str(config.max_bytes),
        "tasks": str(tasks),
    }
