"""Report by exception: a message passes when it says something else than the last one of its topic that passed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


def changes(messages: DataFrame, deadband: float = 0.0) -> DataFrame:
    """Numbers pass when they are more than ``deadband`` away from the last one that passed, other payloads when they differ."""
    return messages.groupBy("topic").transformWithState(
        statefulProcessor=Changes(deadband), outputStructType=messages.schema, outputMode="Append", timeMode="None"
    )


class Changes(StatefulProcessor):
    """Knows for each topic the payload that passed last."""

    def __init__(self, deadband: float) -> None:
        self._deadband = deadband

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getValueState("last", "payload binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        last = bytes(self._last.get()[0]) if self._last.exists() else None
        before = last
        # Spark brings the rows of a topic together in any order.
        for row in sorted(rows, key=lambda row: row.journal_offset):
            payload = bytes(row.payload)
            if last is None or differs(last, payload, self._deadband):
                last = payload
                yield row
        if last != before:
            self._last.update((last,))

    def close(self) -> None:
        """Nothing is held."""


def differs(last: bytes, payload: bytes, deadband: float) -> bool:
    try:
        return abs(float(payload) - float(last)) > deadband
    except ValueError:
        return payload != last
