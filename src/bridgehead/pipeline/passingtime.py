"""Time passes also when no message comes: what lets windows over the arrival of messages close by themselves.

Spark's watermark is the time of the latest row that it has seen, less the lateness the user allows: without a next row it
stands still, and the last window stays open. Of one column more is known: messages get ``received_at`` when they arrive. While
nothing waits in the log, every row that is still to come arrives later than now; so the watermark may follow the clock. Spark
writes a watermark down with the batch that uses it, so a replay uses the same.
"""

from __future__ import annotations

from typing import Any, Final

from pyarrow import flight

from bridgehead.errors import RefusedError
from bridgehead.pipeline.client import NodeClient

LOOK_EVERY: Final = 1.0
"""Seconds."""

MARGIN: Final = 1_000
"""Milliseconds between the arrival of a message and its place in the journal, at most: it may be held back meanwhile."""

STEP: Final = 1_000
"""Milliseconds: a watermark that has moved is a batch for Spark."""


class PassingTime:
    """Moves the watermark of one query, whose watermarks are all on the arrival of messages."""

    def __init__(self, query: Any, node: NodeClient, log: str, lateness: int) -> None:
        self._query = query
        self._node = node
        self._log = log
        self._lateness = lateness

    def look(self) -> None:
        if not self._remembers_something():
            return
        try:
            now = self._node.idle(self._log)
        except (RefusedError, flight.FlightError):
            return  # what that means, the query itself finds out; nobody starts a second one because of its clock
        tracker = self._query._jsq.streamingQuery().watermarkTracker()
        if now is None or tracker is None:
            return
        mark = now - self._lateness - MARGIN
        if mark - tracker.currentWatermark() >= STEP:
            tracker.setWatermark(mark)

    def _remembers_something(self) -> bool:
        progress = self._query.lastProgress
        return progress is not None and any(operator.numRowsTotal for operator in progress.stateOperators)
