"""Retained messages: the last one of each topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc

from bridgehead.columns.batches import Batch
from bridgehead.wire.topicnames import matches

RETAINED_LIMIT: Final = 1_000_000
"""Topics with a retained message; one more is refused and counted."""


class Retained:
    """One row per topic, as it was distributed (OUTBOX form, retain set)."""

    def __init__(self) -> None:
        self._rows: dict[str, Batch] = {}
        self.refused = 0

    def __len__(self) -> int:
        return len(self._rows)

    def keep(self, rows: Batch) -> None:
        """Take the rows that carry the retain flag; an empty payload deletes [MQTT-3.3.1-6]."""
        chosen = rows.filter(rows.column("retain"))
        sizes = pc.binary_length(chosen.column("payload")).to_pylist()
        for i, topic in enumerate(chosen.column("topic").to_pylist()):
            if sizes[i] == 0:
                self._rows.pop(topic, None)
            elif topic in self._rows or len(self._rows) < RETAINED_LIMIT:
                # take() copies the one row; a slice would keep the whole batch alive
                self._rows[topic] = chosen.take([i])
            else:
                self.refused += 1

    def matching(self, topic_filter: str) -> Iterator[Batch]:
        if "+" not in topic_filter and "#" not in topic_filter:
            row = self._rows.get(topic_filter)
            if row is not None:
                yield row
            return
        for topic, row in list(self._rows.items()):
            if matches(topic_filter, topic):
                yield row
