"""The readers of ``url``: offsets of an embedded journal, ranges for tasks, rows by range.

Offsets are {"incarnation": ..., "offset": n}. The incarnation names the journal: offsets of another one mean nothing here.
A reader travels to tasks, so it holds options and nothing else until it is asked for an offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.spark.journalclient import JournalClient
from bridgehead.spark.keeper import Keeper, lingering
from bridgehead.spark.options import Source

LEAST_ROWS: Final = 2_000
"""Below this a further task costs more than it saves; for those who have not said how many they want."""
WAIT: Final = 1.0
"""Seconds that a look for new rows waits at the journal, instead of coming back every few milliseconds."""
NO_LIMIT: Final = 2**62

Offset = dict[str, Any]


@dataclass
class JournalRange(InputPartition):  # type: ignore[misc]
    """What one task reads: the rows of [start, end)."""

    address: str
    token: str = field(repr=False)
    incarnation: str
    start: int
    end: int


class BrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Spark's view of the journal of one client id."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._keeper: Keeper | None = None
        self._journal: JournalClient | None = None
        self._incarnation = ""  # of the journal
        self._earliest = 0  # the first offset it had when it was opened
        self._last: int | None = None  # an AvailableNow run ends here

    def initialOffset(self) -> Offset:
        incarnation, earliest, latest = self._asked().offsets()
        return {"incarnation": incarnation, "offset": first_offset(self._source, earliest, latest)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._source.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        journal = self._asked()
        journal.catch_up(self._source.catch_up_within)
        self._last = journal.offsets()[2]

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        first = self._first(start)
        rows, size = self._source.max_rows_per_trigger, self._source.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadAllAvailable):
            rows = size = NO_LIMIT
        if self._last is None:
            end = self._asked().plan(first, rows, size, WAIT)
        else:
            end = min(self._asked().plan(first, rows, size, 0.0), max(self._last, first))
        return {"incarnation": self._incarnation, "offset": end} if end > first else start

    def reportLatestOffset(self) -> Offset:
        incarnation, _, latest = self._asked().offsets()
        return {"incarnation": incarnation, "offset": latest}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first = self._first(start)
        if end["incarnation"] != self._incarnation or end["offset"] <= first:
            return []
        return ranges(self._asked(), self._source, first, end["offset"])

    def read(self, partition: JournalRange) -> Iterator[Batch]:
        return read_range(partition)

    def commit(self, end: Offset) -> None:
        if end["incarnation"] == self._incarnation:
            self._asked().release(end["offset"])

    def stop(self) -> None:
        if self._journal is not None:
            self._journal.close()
        if self._keeper is not None:
            self._keeper.stop()

    def _asked(self) -> JournalClient:
        """The journal, started when it is first needed: only in the one process that plans batches."""
        if self._journal is None:
            self._keeper = Keeper(self._source)
            self._journal = self._keeper.client()
            self._journal.reach()
            self._incarnation, self._earliest, _ = self._journal.offsets()
        return self._journal

    def _first(self, start: Offset) -> int:
        """Where to read from; a start that is not there any more is an error, or the first row that is."""
        self._asked()
        if start["incarnation"] != self._incarnation:
            self._lost(f"this checkpoint belongs to another journal ({start['incarnation']})")
            return self._earliest
        offset = int(start["offset"])
        if offset < self._earliest:
            self._lost(f"rows from offset {offset} on are wanted, those below {self._earliest} were committed and are gone")
        return max(offset, self._earliest)

    def _lost(self, what: str) -> None:
        if self._source.fail_on_data_loss:
            raise RefusedError(
                f"{what}, and the journal in {self._source.journal_dir} is {self._incarnation} and begins at "
                f"{self._earliest}: use the journalDir of this checkpoint, or a new checkpoint, or failOnDataLoss=false"
            )


class BrokerReader(DataSourceReader):  # type: ignore[misc]
    """What the journal holds when the broker has sent what it kept for us; nothing is committed by looking."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def partitions(self) -> list[InputPartition]:
        journal = lingering(self._source)
        try:
            journal.catch_up(self._source.catch_up_within)
            _, earliest, latest = journal.offsets()
            return ranges(journal, self._source, first_offset(self._source, earliest, latest), latest)
        finally:
            journal.close()

    def read(self, partition: JournalRange) -> Iterator[Batch]:
        return read_range(partition)


def first_offset(source: Source, earliest: int, latest: int) -> int:
    """Where a new query begins."""
    wanted = source.starting_offsets
    if wanted == "earliest":
        return earliest
    if wanted == "latest":
        return latest
    if not earliest <= wanted <= latest:
        raise RefusedError(f"startingOffsets {wanted} is not in the journal: it has {earliest} to {latest}")
    return wanted


def ranges(journal: JournalClient, source: Source, start: int, end: int) -> list[InputPartition]:
    incarnation, _, _ = journal.offsets()
    if source.partitions is None:
        parts, least = os.cpu_count() or 1, LEAST_ROWS
    else:
        parts, least = source.partitions, 1
    split = journal.split(start, end, parts, least)
    return [JournalRange(journal.address, journal.token, incarnation, low, high) for low, high in split]


def read_range(partition: JournalRange) -> Iterator[Batch]:
    if partition.start == partition.end:
        return
    journal = JournalClient(partition.address, partition.token)
    try:
        yield from journal.read(partition.incarnation, partition.start, partition.end)
    finally:
        journal.close()
