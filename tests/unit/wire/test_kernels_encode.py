"""Frames, case by case: what overrules a column, what cannot be sent, what a careless batch holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridgehead.columns.schema import WIRE
from bridgehead.wire.frames import UNSENDABLE, encode_acks, encode_publishes, frame_sizes


def batch(*rows: dict[str, Any]) -> Any:
    filled = [{"topic": "t", "payload": b"p", "qos": 0, "retain": False, "user_properties": []} | row for row in rows]
    return pa.RecordBatch.from_pylist(filled, schema=WIRE)


def qos0(count: int = 1) -> tuple[Any, Any]:
    return np.zeros(count, np.uint8), np.zeros(count, np.uint16)


def test_the_expiry_given_overrules_the_column() -> None:
    messages = batch({"message_expiry": 9}, {"message_expiry": 9}, {})
    frames = encode_publishes(messages, 5, *qos0(3), expiry=np.array([3, -1, 2**40], np.int64))
    three, none, most = b"\x05\x02\x00\x00\x00\x03", b"\x00", b"\x05\x02\xff\xff\xff\xff"
    assert frames.data.tobytes() == (
        b"\x30\x0a\x00\x01t" + three + b"p\x30\x05\x00\x01t" + none + b"p\x30\x0a\x00\x01t" + most + b"p"
    )


@pytest.mark.parametrize(("given", "first"), [(None, 0x31), (True, 0x31), (False, 0x30)])
def test_retain_is_the_columns_unless_it_is_given(given: bool | None, first: int) -> None:
    assert encode_publishes(batch({"retain": True}), 4, *qos0(), retain=given).data[0] == first


def test_an_empty_batch_has_no_frames() -> None:
    frames = encode_publishes(batch().slice(0, 0), 5, *qos0(0))
    assert (len(frames.data), len(frames.ends)) == (0, 0)


@pytest.mark.parametrize(
    "row",
    [
        {"topic": ""},
        {"topic": "t" * 65_536},
        {"content_type": "t" * 65_536},
        {"correlation_data": bytes(65_536)},
        {"user_properties": [{"key": "k", "value": "v" * 65_536}]},
        {"payload": bytes(268_435_453)},
    ],
)
def test_a_row_that_mqtt_cannot_express_is_found_and_refused(row: dict[str, Any]) -> None:
    messages = batch({}, row)
    assert frame_sizes(messages, 5, qos0(2)[0]).tolist() == [7, UNSENDABLE]
    with pytest.raises(ValueError, match="row 1"):
        encode_publishes(messages, 5, *qos0(2))


def test_a_null_topic_is_refused_and_a_null_payload_is_empty() -> None:
    with pytest.raises(ValueError, match="topic"):
        encode_publishes(batch({"topic": None}), 4, *qos0())
    assert encode_publishes(batch({"payload": None, "retain": None}), 4, *qos0()).data.tobytes() == b"\x30\x03\x00\x01t"


def test_null_pairs_and_keys_are_left_out_and_a_null_value_is_empty() -> None:
    pairs = [None, {"key": None, "value": "v"}, {"key": "k", "value": None}]
    frames = encode_publishes(batch({"user_properties": pairs}, {"user_properties": None}), 5, *qos0(2))
    assert frames.data.tobytes() == b"\x30\x0b\x00\x01t\x06\x26\x00\x01k\x00\x00p" + b"\x30\x05\x00\x01t\x00p"


def test_columns_of_a_kindred_type_are_cast() -> None:
    messages = batch({"content_type": "x"})
    large = messages.set_column(0, "topic", messages.column("topic").cast(pa.large_string()))
    large = large.set_column(1, "payload", messages.column("payload").cast(pa.large_binary()))
    large = large.set_column(0, "topic", large.column("topic").cast(pa.string()).dictionary_encode())
    for name in ("response_topic", "user_properties"):
        large = large.set_column(large.schema.get_field_index(name), name, pa.nulls(1))
    assert encode_publishes(large, 5, *qos0()).data.tobytes() == encode_publishes(messages, 5, *qos0()).data.tobytes()


def test_read_only_and_strided_arguments_are_taken() -> None:
    qos = np.array([1, 9, 1, 9], np.uint8)[::2]
    ids = np.array([1, 2], np.int64)
    ids.setflags(write=False)
    frames = encode_publishes(batch({}, {}), 4, qos, ids)
    assert frames.data.tobytes() == b"\x32\x06\x00\x01t\x00\x01p\x32\x06\x00\x01t\x00\x02p"


def test_arguments_that_do_not_fit_the_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="2 frames"):
        encode_publishes(batch({}, {}), 4, *qos0(1))
    with pytest.raises(ValueError, match="1 packet ids"):
        encode_publishes(batch({}, {}), 4, qos0(2)[0], qos0(1)[1])
    with pytest.raises(ValueError, match="2 frames"):
        encode_publishes(batch({}, {}), 5, *qos0(2), expiry=np.zeros(3, np.int64))


def test_acknowledgements_come_in_runs() -> None:
    ids = np.array([1, 0x1234], np.uint16)
    assert encode_acks(6, ids) == b"\x62\x02\x00\x01\x62\x02\x12\x34"
    assert encode_acks(4, ids[:1]) == b"\x40\x02\x00\x01"
