"""A DataFrame's rows as messages: columns first, then options; ids that are the same when a task is repeated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bridgehead.columns.schema import MESSAGE, OUTBOX
from bridgehead.errors import RefusedError, SettingsError
from bridgehead.spark.options import Sink, parse
from bridgehead.spark.sinkrows import SinkRows, check_columns


def sink(**options: str) -> Sink:
    return parse(Sink, {"url": "mqtt://broker", **options})


def made(columns: dict[str, Any], *, beginning: str = "query:7:0", **options: str) -> list[dict[str, Any]]:
    batch = SinkRows(sink(**options), beginning).messages(pa.RecordBatch.from_pydict(columns), 1_000_000)
    assert batch.schema == OUTBOX
    return batch.to_pylist()


def test_options_say_what_no_column_says() -> None:
    (row,) = made(
        {"payload": [b"x"]},
        topic="t", qos="2", retain="true", contenttype="text/plain", messageexpiry="60", payloadformat="1",
        responsetopic="r", userproperties='{"site": "7"}', messageidproperty="",
    )  # fmt: skip
    del row["received_at"]
    assert row == {
        "topic": "t",
        "payload": b"x",
        "qos": 2,
        "retain": True,
        "wire_qos": 2,
        "message_expiry": 60,
        "payload_format": 1,
        "content_type": "text/plain",
        "response_topic": "r",
        "correlation_data": None,
        "user_properties": [{"key": "site", "value": "7"}],
    }


def test_a_column_goes_first_and_its_nulls_leave_it_to_the_option() -> None:
    rows = made({"topic": ["own", None], "payload": ["a", None], "qos": [0, None]}, topic="t", qos="2")
    assert [(row["topic"], row["payload"], row["qos"]) for row in rows] == [("own", b"a", 0), ("t", b"", 2)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[{"key": "k", "value": "v"}], None, []]),
        pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
    ],
    ids=["array", "map"],
)
def test_user_properties_are_an_array_of_pairs_or_a_map(column: pa.Array) -> None:
    rows = made({"topic": ["t"] * 3, "payload": [b""] * 3, "user_properties": column}, messageidproperty="")
    assert [row["user_properties"] for row in rows] == [[{"key": "k", "value": "v"}], [], []]


def test_an_id_names_query_batch_partition_and_row_and_is_the_same_again() -> None:
    def ids() -> list[str]:
        rows = SinkRows(sink(topic="t"), "query:7:3")
        parts = [rows.messages(pa.RecordBatch.from_pydict({"payload": [b"x"] * count}), 0) for count in (2, 1)]
        found = [row["user_properties"] for part in parts for row in part.to_pylist()]
        assert all(pair["key"] == "message-id" for (pair,) in found)
        return [pair["value"] for (pair,) in found]

    assert ids() == ids() == ["query:7:3:0", "query:7:3:1", "query:7:3:2"]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"topic": [None], "payload": [b""]}, "no topic"),
        ({"topic": ["a/#"], "payload": [b""]}, "not a topic"),
        ({"topic": ["a"], "payload": [b""], "qos": [3]}, "qos"),
        ({"topic": ["a"], "payload": [1.5]}, "column payload is double, a message needs binary or string"),
        ({"topic": ["a"], "payload": [b""], "retain": ["yes"]}, "column retain"),
    ],
)
def test_what_mqtt_cannot_carry_is_refused_with_its_name(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        made({name: pa.array(values, pa.string()) if values == [None] else values for name, values in columns.items()})


def test_a_column_that_no_message_has_is_refused_and_those_of_the_message_table_are_not() -> None:
    check_columns(list(MESSAGE.names), sink())
    with pytest.raises(SettingsError) as refused:
        check_columns(["value"], sink())
    assert [name for name, _ in refused.value.faults] == ["value", "payload", "topic"]
