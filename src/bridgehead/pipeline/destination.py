"""The topics of a column, as the destination of a route has them: each distinct one is worked out once, then looked up."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import column_data, constant
from bridgehead.wire.topicnames import valid_topic
from bridgehead.wire.topictemplate import Destination, read_template

NO_TOPIC: Final = ""
"""What becomes of a topic that the destination makes nothing valid of."""
LONGEST: Final = 65_535
"""Bytes of the longest topic [MQTT-4.7.3-3]."""
TOPICS_LIMIT: Final = 20_000
"""Distinct topics whose destination is remembered for a route; beyond it the memory starts anew."""

CLIENT_BEHIND: Final = "\0"
"""Between a topic and the client it came from, where both decide; no topic has it."""

Change = Callable[[pa.Array, pa.Array | None], pa.Array]
"""From topics, and the clients they came from if that is known, to topics."""


class Where(NamedTuple):
    """What decides on the topic of a route's messages. Plain values: they travel as JSON."""

    destination: str | None = None  # a template without names and variables; None keeps the topic
    filters: tuple[str, ...] = ()  # of the route, where the template asks for what their wildcards stand for
    rewrite: tuple[tuple[str, str], ...] = ()  # patterns and what takes their place, one after the other


HERE: Final = Where()
"""Every message keeps its topic."""


@lru_cache(maxsize=1024)
def change_of(where: Where) -> Change:
    """The function on a column of topics. A null stays null, and what comes to no valid topic is ``NO_TOPIC``."""
    template = None if where.destination is None else read_template(where.destination)
    if where.rewrite:
        return Lookup(None if template is None else Destination(template, where.filters), where.rewrite)
    parts: list[str | None] | None = [None] if template is None else template.parts
    if parts is None:
        assert template is not None
        return Lookup(Destination(template, where.filters))
    return _joining(parts)


def _joining(parts: list[str | None]) -> Change:
    """Text around the whole topic needs no look at a single row."""
    parts = [part for part in parts if part != ""]
    if parts == [None]:
        return lambda topics, clients: topics
    if None not in parts:
        text = "".join(part for part in parts if part is not None)
        return lambda topics, clients: constant(text, pa.string(), len(topics))

    def joined(topics: pa.Array, clients: pa.Array | None) -> pa.Array:
        column = pc.binary_join_element_wise(*(topics if part is None else part for part in parts), "")
        return _without_longer(column, LONGEST)

    return joined


def _without_longer(topics: pa.Array, longest: int) -> pa.Array:
    """Too long a topic is none. Most columns are shorter as a whole than what is too long for one row."""
    ends, _ = column_data(topics)
    if not len(topics) or ends[-1] - ends[0] <= longest or np.diff(ends).max() <= longest:
        return topics
    return pc.if_else(pc.greater(pc.binary_length(topics), longest), NO_TOPIC, topics)


class Lookup:
    """Asks for each distinct topic of a column what it becomes; the answer is remembered."""

    def __init__(self, destination: Destination | None, rewrite: tuple[tuple[str, str], ...] = ()) -> None:
        self._destination = destination
        self._rewrite = rewrite
        self._known: dict[str, str] = {NO_TOPIC: NO_TOPIC}

    def __call__(self, topics: pa.Array, clients: pa.Array | None) -> pa.Array:
        if self._destination is not None and self._destination.asks_for_client:
            names = constant("", pa.string(), len(topics)) if clients is None else pc.fill_null(clients.cast(pa.string()), "")
            topics = pc.binary_join_element_wise(topics, names, CLIENT_BEHIND)
        encoded = topics.dictionary_encode()
        distinct = _texts(encoded.dictionary)
        if len(self._known) + len(distinct) > TOPICS_LIMIT:
            self._known = {NO_TOPIC: NO_TOPIC}
        known = self._known
        new = [topic for topic in distinct if topic not in known]
        if new:
            known.update(zip(new, self._worked_out(new), strict=True))
        return pa.array([known[topic] for topic in distinct], pa.string()).take(encoded.indices)

    def _worked_out(self, topics: list[str]) -> list[str]:
        if self._destination is not None:
            named = (topic.partition(CLIENT_BEHIND) for topic in topics)
            topics = [self._destination.topic(topic, client) if topic else NO_TOPIC for topic, _, client in named]
        if self._rewrite:
            column = pa.array(topics, pa.string())
            for pattern, replacement in self._rewrite:
                column = pc.replace_substring_regex(column, pattern=pattern, replacement=replacement)
            topics = column.to_pylist()
        return [topic if valid_topic(topic) else NO_TOPIC for topic in topics]


def _texts(column: pa.Array) -> list[str]:
    """A transform may make strings of bytes that are no text."""
    try:
        texts: list[str] = column.to_pylist()
    except UnicodeDecodeError:
        texts = [_text(each) for each in column.cast(pa.binary()).to_pylist()]
    return texts


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return NO_TOPIC
