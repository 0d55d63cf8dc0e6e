"""A query with a user's transform, an archive, or both: the message table, the transform, rules and staging, a commit a batch.

A query without a memory begins at the consumed offset, and what it writes down is never read again. One with a memory (windows,
duplicates, any state) goes on where its checkpoint says; its commits name their batch.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

import pyarrow as pa

from bridgehead.columns.schema import MESSAGE
from bridgehead.pipeline.archive.landing import LISTED_DDL, Landing, Stage
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig
from bridgehead.pipeline.made import StageMade
from bridgehead.pipeline.protocol import Planned
from bridgehead.pipeline.query import messages_of, options, register
from bridgehead.pipeline.rules import apply, as_it_came
from bridgehead.pipeline.source import JournalSource
from bridgehead.pipeline.takingapart import culprits
from bridgehead.pipeline.task import MANIFEST_DDL, StageRows, listed
from bridgehead.pipeline.usercode import OFFSET, Made, made_by, made_of
from bridgehead.storage.deadletters import TRANSFORM_FAILED

_MANY_ROWS: Final = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""A transform's rows go through the JVM: there generated code is worth its compilation."""

_ROCKS_STATE: Final = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Its snapshots are copied by a part of Hadoop that takes every local file system for this one. Hadoop keeps one for all
    # sessions, the raw one that queries without a memory have, unless it is told not to.
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""transformWithState works with no other store, and in this one state may be larger than memory."""

AT_HAND_ROWS: Final = 10_000
AT_HAND_BYTES: Final = 32 << 20
"""Messages that the driver takes itself when it looks for those that fail."""

Parts = list[dict[str, Any]]


def session_of(spark: Any) -> Any:
    """A session for one transform: its views and its settings are nobody else's."""
    own = spark.newSession()
    # Spark looks for sources of the same name in the session that this thread used last, which has ours.
    own._get_j_spark_session_class(own._jvm).setActiveSession(own._jsparkSession)
    register(own)
    for key, value in _MANY_ROWS.items():
        own.conf.set(key, value)
    return own


def made(session: Any, config: JobConfig, query: QueryConfig, tasks: int) -> Made:
    """What the transform of this query makes of its log; without one its messages as they are."""
    messages = messages_of(session, config, query, tasks)
    if query.transform is None:
        return Made(messages, has_memory=False, in_order=True, to_sort=False)
    return made_by(query.transform, session, messages, whole=query.archive is not None)


class Lander:
    """Starts the query, and lands each of its batches: one evaluation of its rows, one commit."""

    def __init__(
        self,
        session: Any,
        config: JobConfig,
        query: QueryConfig,
        result: Made,
        tasks: int,
        node: NodeClient,
        incarnation: str,
        archive: Landing | None,
    ) -> None:
        """``session`` is that in which the result was made."""
        self._session = session
        self._config = config
        self._query = query
        self._transform = query.transform
        self._made = result
        self._tasks = tasks
        self._node = node
        self._incarnation = incarnation
        self._archive = archive
        self._rules = next(rules for rules in query.rules if rules.route == query.log)

    def start(self, checkpoint: str) -> Any:
        # A window that has closed comes out without another message that would push it.
        self._session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(self._made.has_memory).lower())
        for key, value in _ROCKS_STATE.items() if self._made.has_memory else ():
            self._session.conf.set(key, value)
        return (
            self._made.frame.writeStream.foreachBatch(self.land)
            .outputMode("append" if self._transform is None else self._transform.output_mode)
            .option("checkpointLocation", checkpoint)
            .queryName(self._query.log)
            .start()
        )

    def land(self, frame: Any, number: int) -> None:
        """Spark calls this with each batch."""
        log = self._query.log
        name = next(each.id for each in self._session.streams.active if each.name == log)
        planned = self._node.planned(log)
        stage = self._stage(f"{name[:8]}.{number}", planned)
        dead: Parts = []
        try:
            listed = self._listed(frame, stage)
        except Exception as error:
            if not self._may_take_apart or not is_of_the_rows(error):
                raise
            failing = culprits(planned.start, planned.end, self._fails)
            messages = self._standing(planned.start, planned.end)
            listed = self._listed(self._evaluated(messages.where(~messages[OFFSET].isin(*failing))), stage)
            dead = self._buried(failing)
        batch = (name, number) if self._made.has_memory else None
        commit = partial(self._node.commit, log, planned.start, planned.end, batch=batch)
        if self._archive is None:
            commit([*listed, *dead])
        else:
            self._archive.land([*listed, *dead], planned.start, planned.end, commit)

    def _stage(self, batch: str, planned: Planned) -> Stage:
        address, epoch, log = self._config.access.address, self._config.epoch, self._query.log
        if self._transform is None:
            return StageRows(address, epoch, log, self._query.rules).__call__
        dead_letters = self._transform.on_error == "dead-letter"
        return StageMade(address, epoch, log, self._rules, batch, planned.hops, planned.qos, dead_letters).__call__

    def _listed(self, frame: Any, stage: Stage) -> Parts:
        if self._made.to_sort:
            frame = frame.coalesce(1).sortWithinPartitions(OFFSET)
        if self._archive is None:
            rows = frame.mapInArrow(stage, MANIFEST_DDL).collect()
        else:
            rows = frame.mapInArrow(self._archive.rows(stage).__call__, LISTED_DDL).collect()
        return [row.asDict() for row in rows]

    # -- single messages that fail ------------------------------------------------------------------------------------

    @property
    def _may_take_apart(self) -> bool:
        """What one message does to a memory cannot be taken apart from what the others do."""
        return self._transform is not None and self._transform.on_error == "dead-letter" and not self._made.has_memory

    def _fails(self, start: int, end: int) -> bool:
        try:
            self._evaluated(self._standing(start, end)).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not is_of_the_rows(error):
                raise
            return True
        return False

    def _standing(self, start: int, end: int) -> Any:
        """The messages of a range, as a table that stands still."""
        if end - start <= AT_HAND_ROWS:
            found = pa.Table.from_batches(self._node.read_messages(self._incarnation, self._query.log, start, end), MESSAGE)
            if found.nbytes <= AT_HAND_BYTES:  # a source in Python starts three processes before its first row
                return self._session.createDataFrame(found)
        given = options(self._config, self._query, self._tasks)
        wanted = {**given, "incarnation": self._incarnation, "start": str(start), "end": str(end)}
        return self._session.read.format(JournalSource.name()).options(**wanted).load()

    def _evaluated(self, messages: Any) -> Any:
        """What the transform makes of them."""
        assert self._transform is not None
        return made_of(self._transform, self._session, messages, whole=self._archive is not None)

    def _buried(self, failing: Collection[int]) -> Parts:
        """Messages become dead letters as they came."""
        log, route, parts = self._query.log, self._rules.route, []
        for offset in failing:
            for rows in self._node.read_messages(self._incarnation, log, offset, offset + 1):
                part, name = {route: apply(rows, as_it_came(route))}, f"failed/{offset}"
                self._node.stage(log, name, part)
                entry = listed(name, part, 0, TRANSFORM_FAILED)
                parts.append({**entry, **({} if self._archive is None else {"file": None})})
        return parts


_OF_THE_ROWS: Final = (
    "PythonException",
    "ArithmeticException",
    "NumberFormatException",
    "DateTimeException",
    "ArrayIndexOutOfBoundsException",
    "SparkRuntimeException",
)
"""What pyspark calls an error in evaluating rows."""

_OURS: Final = ("RefusedError", "StaleEpochError", "FlightUnavailable", "FlightTimedOut", "FlightInternal", "ArchiveError")
"""What goes wrong between Spark, the node and an archive says nothing about a row."""


def is_of_the_rows(error: Exception) -> bool:
    """Whether a batch failed because of what is in it: trying it again would help nobody."""
    text = str(error)
    return type(error).__name__ in _OF_THE_ROWS and not any(name in text for name in _OURS)
