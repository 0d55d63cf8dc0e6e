"""The forms of a streaming query over a log.

- scan: for a log without a transform. Read, rules and staging are one task; Spark's sink has nothing left to do.
- messages: the log as the message table, rules and staging behind it in ``mapInArrow``; the driver collects the manifest
  and commits in ``foreachBatch``. One action only: a second one would read the source again.
- transform: the same with the user's transform on the message table, an archive behind it, or both.

A query without a memory begins at the consumed offset, so what it writes down is never read again. One with a memory
(windows, duplicates, any state) goes on where its checkpoint says; its commits name their batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.archive.landing import LISTED_DDL, Landing, Stage
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig
from bridgehead.pipeline.made import StageMade
from bridgehead.pipeline.protocol import Planned
from bridgehead.pipeline.scan import ScanSource, rules_option
from bridgehead.pipeline.source import JournalSource
from bridgehead.pipeline.task import MANIFEST_DDL, StageRows
from bridgehead.pipeline.usercode import OFFSET, Made, made_by

_LAZY_PROGRESS: Final = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": str(24 * 3600 * 1000),
}

_MANY_ROWS: Final = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""A transform's rows go through the JVM: there generated code is worth its compilation."""


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
    options = {**_options(config, query, tasks), "rules": rules_option(query.rules)}
    return (
        spark.readStream.format(ScanSource.name())
        .options(**options)
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


def session_of(spark: Any) -> Any:
    """A session for one transform: its views and its settings are nobody else's."""
    own = spark.newSession()
    # Spark looks for sources of the same name in the session that this thread used last, which has ours.
    own._get_j_spark_session_class(own._jvm).setActiveSession(own._jsparkSession)
    register(own)
    for key, value in _MANY_ROWS.items():
        own.conf.set(key, value)
    return own


def made(spark: Any, config: JobConfig, query: QueryConfig, tasks: int) -> Made:
    """What the transform of this query makes of its log; without one its messages as they are."""
    messages = messages_of(spark, config, query, tasks)
    if query.transform is None:
        return Made(messages, has_memory=False, in_order=True, to_sort=False)
    return made_by(query.transform, spark, messages, whole=query.archive is not None)


def start_transform(
    spark: Any,
    config: JobConfig,
    query: QueryConfig,
    result: Made,
    checkpoint: str,
    node: NodeClient,
    archive: Landing | None = None,
) -> Any:
    """``spark`` is the session in which the result was made. For a route with a transform, an archive or both."""
    transform = query.transform
    rules = next(rules for rules in query.rules if rules.route == query.log)
    # A window that has closed comes out without another message that would push it.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(result.has_memory).lower())
    name = ""  # of the query, known when it has started

    def staging(own: str, number: int, planned: Planned) -> Stage:
        if transform is None:
            return StageRows(config.access.address, config.epoch, query.log, query.rules).__call__
        return StageMade(
            address=config.access.address,
            epoch=config.epoch,
            log=query.log,
            rules=rules,
            batch=f"{own[:8]}.{number}",
            hops=planned.hops,
            qos_cap=planned.qos,
            dead_letters=transform.on_error == "dead-letter",
        ).__call__

    def land(frame: Any, number: int) -> None:
        own = name or next(each.id for each in spark.streams.active if each.name == query.log)
        planned = node.planned(query.log)
        if result.to_sort:
            frame = frame.coalesce(1).sortWithinPartitions(OFFSET)
        stage = staging(own, number, planned)
        batch = (own, number) if result.has_memory else None
        commit = partial(node.commit, query.log, planned.start, planned.end, batch=batch)
        if archive is None:
            commit([row.asDict() for row in frame.mapInArrow(stage, MANIFEST_DDL).collect()])
        else:
            listed = [row.asDict() for row in frame.mapInArrow(archive.rows(stage).__call__, LISTED_DDL).collect()]
            archive.land(listed, planned.start, planned.end, commit)

    started = (
        result.frame.writeStream.foreachBatch(land)
        .outputMode("append" if transform is None else transform.output_mode)
        .option("checkpointLocation", checkpoint)
        .queryName(query.log)
        .start()
    )
    name = started.id
    return started


def messages_of(spark: Any, config: JobConfig, query: QueryConfig, tasks: int) -> Any:
    """The log as the message table."""
    return spark.readStream.format(JournalSource.name()).options(**_options(config, query, tasks)).load()


def _options(config: JobConfig, query: QueryConfig, tasks: int) -> dict[str, str]:
    return {
        "address": config.access.address,
        "epoch": str(config.epoch),
        "log": query.log,
        "max_rows": str(config.max_rows),
        "max_bytes": str(config.max_bytes),
        "tasks": str(tasks),
    }
