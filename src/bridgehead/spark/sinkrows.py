"""A DataFrame's rows as messages: columns first, options where there is no column or it says nothing.

Pure. The id of a message is made of what is the same when Spark repeats a task: the query, the batch, the partition and the
place of the row in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import Batch, constant
from bridgehead.columns.schema import OUTBOX, TIMESTAMP, USER_PROPERTIES, USER_PROPERTY
from bridgehead.errors import RefusedError, SettingsError
from bridgehead.pipeline.rules import with_ids
from bridgehead.spark.options import Messages
from bridgehead.wire.topicnames import valid_topic

COLUMNS: Final = {
    "topic": "string",
    "payload": "binary or string",
    "qos": "int",
    "retain": "boolean",
    "message_expiry": "bigint",
    "payload_format": "int",
    "content_type": "string",
    "response_topic": "string",
    "correlation_data": "binary",
    "user_properties": "array<struct<key: string, value: string>> or map<string, string>",
}
IGNORED: Final = frozenset(
    {"received_at", "client_id", "route", "bridge", "node", "journal_partition", "journal_offset"}
)  # of the message table: what a message does not say itself

Typed = Callable[[pa.DataType], bool]
_TAKEN: Final[dict[str, tuple[Typed, ...]]] = {
    "topic": (pa.types.is_string, pa.types.is_large_string),
    "payload": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string),
    "qos": (pa.types.is_integer,),
    "retain": (pa.types.is_boolean,),
    "message_expiry": (pa.types.is_integer,),
    "payload_format": (pa.types.is_integer,),
    "content_type": (pa.types.is_string, pa.types.is_large_string),
    "response_topic": (pa.types.is_string, pa.types.is_large_string),
    "correlation_data": (pa.types.is_binary, pa.types.is_large_binary),
    "user_properties": (pa.types.is_list, pa.types.is_large_list, pa.types.is_map),
}


def check_columns(names: list[str], sink: Messages) -> None:
    """Raises SettingsError where a DataFrame with these columns cannot be published."""
    faults = [
        (name, f"no column of a message; known are {', '.join(COLUMNS)}")
        for name in names
        if name not in COLUMNS and name not in IGNORED
    ]
    if "payload" not in names:
        faults.append(("payload", "the DataFrame has no such column"))
    if "topic" not in names and sink.topic is None:
        faults.append(("topic", "the DataFrame has no such column, and there is no option topic"))
    if faults:
        raise SettingsError(faults)


class SinkRows:
    """Makes messages of one task's rows. ``beginning`` is how the ids of all of them begin."""

    def __init__(self, sink: Messages, beginning: str) -> None:
        self._sink = sink
        self._beginning = beginning
        self._row = 0

    def messages(self, batch: Batch, now_us: int) -> Batch:
        """OUTBOX rows."""
        sink, rows = self._sink, batch.num_rows
        given = {name: batch.column(name) for name in batch.schema.names if name in COLUMNS}
        for name, column in given.items():
            if not any(fits(column.type) for fits in _TAKEN[name]):
                raise RefusedError(f"column {name} is {column.type}, a message needs {COLUMNS[name]}")

        def chosen(name: str, kind: pa.DataType, default: Any) -> pa.Array:
            if name not in given:
                return pa.nulls(rows, kind) if default is None else constant(default, kind, rows)
            column = given[name].cast(kind)
            return column if default is None or not column.null_count else pc.fill_null(column, pa.scalar(default, kind))

        columns = {
            "topic": chosen("topic", pa.string(), sink.topic),
            "payload": pc.fill_null(chosen("payload", pa.binary(), None), b""),
            "qos": chosen("qos", pa.int32(), sink.qos),
            "retain": chosen("retain", pa.bool_(), sink.retain),
            "received_at": pa.array(np.full(rows, now_us, np.int64)).view(TIMESTAMP),
            "message_expiry": chosen("message_expiry", pa.int64(), sink.message_expiry),
            "payload_format": chosen("payload_format", pa.int32(), sink.payload_format),
            "content_type": chosen("content_type", pa.string(), sink.content_type),
            "response_topic": chosen("response_topic", pa.string(), sink.response_topic),
            "correlation_data": chosen("correlation_data", pa.binary(), None),
            "user_properties": self._user_properties(given.get("user_properties"), rows),
        }
        _check(columns["topic"], columns["qos"])
        columns["wire_qos"] = columns["qos"]
        made = pa.RecordBatch.from_arrays([columns[name] for name in OUTBOX.names], schema=OUTBOX)
        first, self._row = self._row, self._row + rows
        if not sink.message_id_property:
            return made
        numbers = pa.array(np.arange(first, first + rows)).cast(pa.string())
        return with_ids(made, sink.message_id_property, pc.binary_join_element_wise(self._beginning, numbers, ":"))

    def _user_properties(self, column: pa.Array | None, rows: int) -> pa.Array:
        default = [{"key": key, "value": value} for key, value in self._sink.user_properties]
        if column is None:
            column = pa.nulls(rows, USER_PROPERTIES)
        elif pa.types.is_map(column.type):
            pairs = pa.StructArray.from_arrays([column.keys, column.items], fields=list(USER_PROPERTY))
            column = pa.ListArray.from_arrays(column.offsets, pairs, mask=column.is_null()).cast(USER_PROPERTIES)
        else:
            column = column.cast(USER_PROPERTIES)
        return pc.fill_null(column, pa.scalar(default, USER_PROPERTIES)) if column.null_count else column


def _check(topics: pa.Array, qos: pa.Array) -> None:
    """What MQTT cannot carry is refused here, with a name, and not by a broker that closes the connection."""
    if topics.null_count:
        raise RefusedError("a row has no topic, and there is no option topic")
    for topic in pc.unique(topics).to_pylist():
        if not valid_topic(topic):
            raise RefusedError(f"{topic!r} is not a topic that can be published to")
    extremes = pc.min_max(qos)
    if len(qos) and not 0 <= extremes["min"].as_py() <= extremes["max"].as_py() <= 2:
        raise RefusedError("a row has a qos that is not 0, 1 or 2")
