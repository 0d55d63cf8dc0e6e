"""Retained messages: the last one of each topic, found by level.

Rows stay in the batches they came in, copied to what is kept of them; a topic only says which row is its own. When more
than half of the rows are overtaken, what is left is copied together. The shelf keeps on the disk what is to survive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.broker.retainedshelf import Kept, RetainedShelf
from bridgehead.columns.batches import Batch, concat
from bridgehead.storage.engine import Changes, Engine
from bridgehead.wire.topicnames import matches

RETAINED_LIMIT: Final = 1_000_000
"""Topics with a retained message; one more is refused and counted."""
OVERTAKEN_AT_LEAST: Final = 1024
"""So many overtaken rows are not worth copying the rest."""


DEEPEST: Final = 64
"""Topics with more levels are looked at one by one: a topic of nothing but slashes must not become thousands of levels."""


class _Level:
    __slots__ = ("children", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.topic: str | None = None  # the topic that ends here, if it has a message


class Retained:
    """One row per topic, as it was distributed (OUTBOX form, retain set)."""

    def __init__(self, engine: Engine) -> None:
        self._shelf = RetainedShelf(engine)
        self._places: dict[str, tuple[Kept, int]] = {}
        self._root = _Level()
        self._deep: set[str] = set()  # topics that are not found by level
        self._rows = 0  # in all batches that were kept, overtaken ones included
        self.refused = 0
        self._recover(engine)

    def _recover(self, engine: Engine) -> None:
        changes = Changes()
        for kept, rows in self._shelf.found():
            topics = kept.batch.column("topic").to_pylist()
            for row in rows:
                if topics[row] in self._places:  # damage has taken the note that says so
                    self._shelf.leave(changes, *self._places[topics[row]])
                self._place(topics[row], kept, row)
        engine.write(changes)

    def __len__(self) -> int:
        return len(self._places)

    def keep(self, changes: Changes, rows: Batch) -> None:
        """Take the rows that carry the retain flag, as part of this write; an empty payload deletes [MQTT-3.3.1-6]."""
        flagged = np.flatnonzero(rows.column("retain").to_numpy(zero_copy_only=False))
        topics = rows.column("topic").take(pa.array(flagged)).to_pylist()
        last = dict(zip(topics, flagged.tolist(), strict=True))  # of several of one topic the last counts
        sizes = pc.binary_length(rows.column("payload")).to_numpy(zero_copy_only=False)
        kept: list[str] = []
        room = RETAINED_LIMIT - len(self._places)
        for topic, row in last.items():
            known = topic in self._places
            if sizes[row] == 0:
                self._delete(changes, topic)
                room += known
            elif known or room > 0:
                kept.append(topic)
                room -= not known
            else:
                self.refused += 1
        if kept:
            # A copy: a slice would keep the whole batch alive.
            self._put(changes, rows.take(pa.array([last[topic] for topic in kept])))
        if self._rows > 2 * len(self._places) + OVERTAKEN_AT_LEAST:
            self._copy_together(changes)

    def matching(self, topic_filter: str) -> Batch | None:
        """The messages a filter selects, in no particular order; None if there are none."""
        if "+" not in topic_filter and "#" not in topic_filter:
            topics = [topic_filter] if topic_filter in self._places else []
        else:
            topics = list(_below(self._root, topic_filter.split("/")))
            topics += [topic for topic in self._deep if matches(topic_filter, topic)]
        return self._gathered(topics) if topics else None

    def _put(self, changes: Changes, rows: Batch) -> None:
        """Rows of different topics; what these topics had before is overtaken."""
        for kept in self._shelf.keep(changes, rows):
            for row, topic in enumerate(kept.batch.column("topic").to_pylist()):
                if topic in self._places:
                    self._shelf.leave(changes, *self._places[topic])
                self._place(topic, kept, row)

    def _place(self, topic: str, kept: Kept, row: int) -> None:
        if topic not in self._places:
            self._index(topic)
        self._places[topic] = kept, row
        self._rows += 1

    def _index(self, topic: str) -> None:
        parts = topic.split("/")
        if len(parts) > DEEPEST:
            self._deep.add(topic)
            return
        level = self._root
        for part in parts:
            if part not in level.children:
                level.children[part] = _Level()
            level = level.children[part]
        level.topic = topic

    def _delete(self, changes: Changes, topic: str) -> None:
        place = self._places.pop(topic, None)
        if place is None:
            return
        self._shelf.leave(changes, *place)
        parts = topic.split("/")
        if len(parts) > DEEPEST:
            self._deep.discard(topic)
            return
        path = [self._root]
        for part in parts:
            path.append(path[-1].children[part])
        path[-1].topic = None
        for parent, part in zip(reversed(path[:-1]), reversed(parts), strict=True):
            child = parent.children[part]
            if child.children or child.topic is not None:
                break
            del parent.children[part]

    def _gathered(self, topics: list[str]) -> Batch:
        chosen: dict[int, tuple[Batch, list[int]]] = {}
        for topic in topics:
            kept, row = self._places[topic]
            chosen.setdefault(id(kept), (kept.batch, []))[1].append(row)
        return concat([batch.take(pa.array(rows)) for batch, rows in chosen.values()])

    def _copy_together(self, changes: Changes) -> None:
        self._rows = 0
        if self._places:
            self._put(changes, self._gathered(list(self._places)))


def _below(root: _Level, wanted: list[str]) -> Iterator[str]:
    """Topics that a filter with these parts matches."""
    open_levels = [(root, 0)]
    while open_levels:
        level, depth = open_levels.pop()
        part = wanted[depth] if depth < len(wanted) else None
        if level.topic is not None and part in (None, "#"):  # "a/#" also matches "a"
            yield level.topic
        if part is None:
            continue
        if part not in ("+", "#"):
            if part in level.children:
                open_levels.append((level.children[part], depth + 1))
            continue
        for name, child in level.children.items():
            if level is root and name.startswith("$"):
                continue  # [MQTT-4.7.2-1]
            open_levels.append((child, depth if part == "#" else depth + 1))
