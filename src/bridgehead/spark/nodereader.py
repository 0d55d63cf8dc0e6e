"""The readers of ``node``: a running node's journal, read by offset, without changing what its own pipeline consumes.

Offsets are {"incarnation": ..., "offsets": {log: n}}. The incarnation names the life of the journal: with another one these
offsets mean nothing any more. A log that comes up later is read from its beginning. What the node does not retain any more is
an error that names the range, or with failOnDataLoss=false a warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from bridgehead.clock import moment_us
from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.client import NodeClient, guest_client
from bridgehead.spark.nodeoptions import EARLIEST, LATEST, NodeSource, Place

log = logging.getLogger(__name__)

LEAST_ROWS: Final = 2_000
"""Below this a further task costs more than it saves; for those who have not said how many they want."""
WAIT: Final = 1.0
"""Seconds that a look for new rows waits at the node, instead of coming back every few milliseconds."""
NO_LIMIT: Final = 2**62

Offset = dict[str, Any]


@dataclass
class RetainedRange(InputPartition):  # type: ignore[misc]
    """What one task reads: the rows of [start, end) of a log."""

    incarnation: str
    log: str
    start: int
    end: int
    routes: list[str] | None  # None = all


class _Guest:
    """What both readers know: how to ask the node, and what to make of an answer."""

    def __init__(self, source: NodeSource, access: Access) -> None:
        self._source = source
        self._access = access

    @property
    def _node(self) -> NodeClient:
        return guest_client(self._access)

    def read(self, partition: RetainedRange) -> Iterator[Batch]:
        lossy = not self._source.fail_on_data_loss
        of = partition.incarnation, partition.log, partition.start, partition.end, partition.routes
        return self._node.read_again(*of, lossy=lossy)

    def _look(self) -> dict[str, Any]:
        return self._node.offsets(None, **self._source.wanted)

    def _resolve(self, option: str, place: Place) -> Offset:
        """Where an option points, in every log."""
        time = moment_us(place) if isinstance(place, str) and place not in (EARLIEST, LATEST) else None
        found = self._node.offsets(time, **self._source.wanted)
        logs = found["logs"]
        if isinstance(place, int):
            if len(logs) != 1:
                raise RefusedError(f'{option} {place}: of which log? Say {{"log": offset}} with {", ".join(sorted(logs))}')
            place = {next(iter(logs)): place}
        if isinstance(place, dict):
            if unknown := sorted(set(place) - set(logs)):
                raise RefusedError(f"{option}: no log {', '.join(unknown)}; there are {', '.join(sorted(logs))}")
            offsets = {name: place.get(name, each[EARLIEST]) for name, each in logs.items()}
            for name, offset in offsets.items():
                if offset > logs[name][LATEST]:
                    raise RefusedError(f"{option}: the log {name} goes up to {logs[name][LATEST]}, {offset} was never given")
        else:
            offsets = {name: each[place if time is None else "at"] for name, each in logs.items()}
        return {"incarnation": found["incarnation"], "offsets": offsets}

    def _ranges(self, start: Offset, end: Offset) -> list[InputPartition]:
        """[start, end) of every log, what is not retained any more left out if that is allowed, refused otherwise."""
        found = self._look()
        if end["incarnation"] != found["incarnation"]:
            self._lost(f"{_text(end)} belongs to an earlier life of the node's journal, which is {found['incarnation']} now")
            return []
        known = start["offsets"] if start["incarnation"] == end["incarnation"] else {}
        ranges: list[InputPartition] = []
        for name, last in end["offsets"].items():
            earliest = found["logs"].get(name, {}).get(EARLIEST, 0)
            first = known.get(name, earliest)
            self._must_be_there(name, first, min(earliest, last))
            first = max(first, min(earliest, last))
            ranges += [
                RetainedRange(end["incarnation"], name, low, high, found["routes"]) for low, high in self._split(first, last)
            ]
        return ranges

    def _split(self, start: int, end: int) -> list[tuple[int, int]]:
        most, least = (os.cpu_count() or 1, LEAST_ROWS) if self._source.partitions is None else (self._source.partitions, 1)
        count = min(most, -(-(end - start) // least))
        return list(pairwise(start + (end - start) * i // count for i in range(count + 1))) if count > 0 else []

    def _must_be_there(self, name: str, start: int, earliest: int) -> None:
        if start < earliest:
            self._lost(f"offsets [{start}, {earliest}) of the log {name} are not retained any more")

    def _lost(self, what: str) -> None:
        if self._source.fail_on_data_loss:
            raise RefusedError(f"{what}; failOnDataLoss=false goes on without them, journal.retain keeps more")
        log.warning("%s: the query goes on without them", what)


class NodeStreamReader(_Guest, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """``spark.readStream``"""

    def __init__(self, source: NodeSource, access: Access) -> None:
        super().__init__(source, access)
        self._last: Offset | None = None  # an AvailableNow run ends here

    def initialOffset(self) -> Offset:
        return self._resolve("startingOffsets", self._source.starting_offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._source.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._resolve(LATEST, LATEST)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        rows, size = self._source.max_rows_per_trigger, self._source.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadAllAvailable):
            rows = size = NO_LIMIT
        begin = self._begin(start)
        starts, wait = begin["offsets"], WAIT
        if self._last is not None:
            starts, wait = {name: each for name, each in starts.items() if name in self._last["offsets"]}, 0.0
        ends = self._node.ahead(begin["incarnation"], starts, rows, size, wait, lossy=not self._source.fail_on_data_loss)
        if self._last is not None:
            ends = {name: max(min(end, self._last["offsets"][name]), starts[name]) for name, end in ends.items()}
        if ends == starts:
            return start  # the very same: nothing has come
        return {"incarnation": begin["incarnation"], "offsets": {**begin["offsets"], **ends}}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self._ranges(start, end)

    def reportLatestOffset(self) -> Offset:
        return self._resolve(LATEST, LATEST)

    def commit(self, end: Offset) -> None:
        """Whoever only looks holds nothing."""

    def _begin(self, start: Offset) -> Offset:
        """Where to go on: at ``start``, with logs that have come up since; in another life of the journal at its beginning."""
        found = self._look()
        earliest = {name: each[EARLIEST] for name, each in found["logs"].items()}
        if start["incarnation"] == found["incarnation"]:
            known = start["offsets"]
            for name, first in earliest.items():
                self._must_be_there(name, known.get(name, first), first)
            return {**start, "offsets": {name: max(known.get(name, first), first) for name, first in earliest.items()}}
        self._lost(
            f"this checkpoint belongs to the journal {start['incarnation']}, the node's is {found['incarnation']} now: it was "
            "started anew in memory, repaired or restored, and what was not read before is gone"
        )
        return {"incarnation": found["incarnation"], "offsets": earliest}


class NodeReader(_Guest, DataSourceReader):  # type: ignore[misc]
    """``spark.read``: everything between startingOffsets and endingOffsets."""

    def partitions(self) -> Sequence[InputPartition]:
        start = self._resolve("startingOffsets", self._source.starting_offsets)
        end = self._resolve("endingOffsets", self._source.ending_offsets)
        return self._ranges(start, end) or [RetainedRange(end["incarnation"], "", 0, 0, None)]

    def read(self, partition: RetainedRange) -> Iterator[Batch]:
        return super().read(partition) if partition.start < partition.end else iter(())


def _text(offset: Offset) -> str:
    return ", ".join(f"{name} {each}" for name, each in offset["offsets"].items())
