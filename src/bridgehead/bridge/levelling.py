"""Retained messages of the remote, brought level: what is stored there is retained here, and what is gone there goes here.

MQTT has a way to ask for what is stored (subscribe again) and none to ask what is not. So a record says which topics of a
route are retained because the remote sent them; after each connect the remote sends what it has, and what is in the record and
did not come is deleted, by a message as the remote would have sent it: empty and retained. The record changes in the write of
the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import Batch, constant
from bridgehead.columns.schema import USER_PROPERTIES, WIRE
from bridgehead.storage.engine import Changes, Engine, Shelf

LEVEL: Final = "level"
"""What the names of the record begin with."""


class Levels:
    """The record of a bridge's routes that are kept level, and the round that is running."""

    def __init__(self, engine: Engine, routes: Iterable[str]) -> None:
        self._topics = {route: {shelf[-1] for shelf, _ in engine.states((LEVEL, route))} for route in routes}
        self._unseen: dict[str, set[str]] = {}  # by route, while a round is running: what has not come in it

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __contains__(self, route: str) -> bool:
        return route in self._topics

    def begin(self) -> None:
        """The remote is about to send everything it has stored."""
        self._unseen = {route: set(topics) for route, topics in self._topics.items()}

    def end(self) -> dict[str, list[str]]:
        """It has: the topics of each route that are retained here and not there."""
        missing = {route: sorted(topics) for route, topics in self._unseen.items() if topics}
        self._unseen = {}
        return missing

    def came(self, changes: Changes, route: str, flagged: Batch) -> None:
        """These messages of a route have come with the retain flag; an empty one deletes."""
        known, unseen = self._topics[route], self._unseen.get(route, set())
        sizes = pc.binary_length(flagged.column("payload")).to_pylist()
        for topic, size in zip(flagged.column("topic").to_pylist(), sizes, strict=True):
            unseen.discard(topic)
            if size and topic not in known:
                known.add(topic)
                changes.state[_name(route, topic)] = True
            elif not size and topic in known:
                known.discard(topic)
                changes.state[_name(route, topic)] = None


def _name(route: str, topic: str) -> Shelf:
    return (LEVEL, route, topic)


def deletions(topics: list[str]) -> Batch:
    """What the remote would have sent when it deleted these."""
    rows = len(topics)
    given = {
        "topic": pa.array(topics, pa.string()),
        "payload": pa.array([b""] * rows, pa.binary()),
        "qos": constant(1, pa.int32(), rows),
        "retain": constant(True, pa.bool_(), rows),
        "user_properties": pa.array([[]] * rows, USER_PROPERTIES),
    }
    columns = [given[field.name] if field.name in given else pa.nulls(rows, field.type) for field in WIRE]
    return pa.RecordBatch.from_arrays(columns, schema=WIRE)
