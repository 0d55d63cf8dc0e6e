"""The frames of a batch are those of its plain twin, for every column filled, null, absent or sliced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.schema import WIRE
from bridgehead.wire import frames
from bridgehead.wire.intake import Intake
from bridgehead.wire.kernels_columns import to_columns
from bridgehead.wire.plain_publish import encode_publish

text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0#+"), max_size=8)
topic = text.filter(bool)
payload = st.one_of(st.binary(max_size=20), st.integers(90, 140).map(bytes), st.integers(16_000, 17_000).map(bytes))
pairs = st.lists(st.fixed_dictionaries({"key": text, "value": text}), max_size=3)


def rows(*absent: str) -> st.SearchStrategy[dict[str, Any]]:
    def maybe(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() if name in absent else st.none() | values

    return st.fixed_dictionaries(
        {
            "topic": topic,
            "payload": payload,
            "qos": st.integers(0, 2),
            "retain": st.booleans(),
            "message_expiry": maybe("message_expiry", st.integers(0, 2**32 - 1)),
            "payload_format": maybe("payload_format", st.integers(0, 1)),
            "content_type": maybe("content_type", text),
            "response_topic": maybe("response_topic", topic),
            "correlation_data": maybe("correlation_data", st.binary(max_size=9)),
            "user_properties": st.just([]) if "user_properties" in absent else pairs,
        }
    )


NAMES = ["message_expiry", "payload_format", "content_type", "response_topic", "correlation_data", "user_properties"]
batches = st.lists(st.sampled_from(NAMES), unique=True).flatmap(
    lambda names: st.lists(rows(*names), min_size=1, max_size=9)
)


@settings(max_examples=300, deadline=None)
@given(batches, st.sampled_from([4, 5]), st.data())
def test_a_batch_becomes_the_frames_of_its_rows(batch: list[dict[str, Any]], version: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(batch) - 1))
    subscription_ids = data.draw(st.sampled_from([(), (1,), (127, 128, 268_435_455)])) if version == 5 else ()
    chosen = batch[first:]
    arrow = pa.RecordBatch.from_pylist(batch, schema=WIRE).slice(first)
    if data.draw(st.booleans()):
        absent = [name for name in NAMES[:-1] if all(row[name] is None for row in batch)]
        arrow = arrow.drop_columns(absent)
    qos = np.array([row["qos"] for row in chosen], np.uint8)
    ids = np.arange(257, 257 + len(chosen)).astype(np.uint16)
    dup = np.array(data.draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen))), np.uint8)

    result = frames.encode_publishes(arrow, version, qos, ids, dup, subscription_ids=subscription_ids)
    expected = [
        encode_publish(row, version, row["qos"], int(ids[i]), bool(dup[i]), subscription_ids)
        for i, row in enumerate(chosen)
    ]
    assert [bytes(f) for f in np.split(result.data, result.ends)[:-1]] == expected
    assert result.data.tobytes() == b"".join(expected)
    sizes = frames.frame_sizes(arrow, version, qos, subscription_ids=subscription_ids)
    assert sizes.tolist() == [len(frame) for frame in expected]

    picks = np.array(data.draw(st.lists(st.integers(0, len(chosen) - 1), min_size=1)), np.int64)
    picked = frames.encode_publishes(
        arrow, version, qos[picks], ids[picks], True, rows=picks, retain=False, subscription_ids=subscription_ids
    )
    assert picked.data.tobytes() == b"".join(
        encode_publish(chosen[i] | {"retain": False}, version, chosen[i]["qos"], int(ids[i]), True, subscription_ids)
        for i in picks
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=6))
def test_what_is_written_is_read_back(batch: list[dict[str, Any]]) -> None:
    arrow = pa.RecordBatch.from_pylist(batch, schema=WIRE)
    qos = np.array([row["qos"] for row in batch], np.uint8)
    sent = frames.encode_publishes(arrow, 5, qos, np.arange(1, len(batch) + 1).astype(np.uint16), subscription_ids=(5,))
    intake = Intake()
    intake.scan(sent.data, 0, len(sent.data), 5, 1, np.zeros(65536, np.uint8), from_server=True)
    assert pa.RecordBatch.from_arrays(list(to_columns(*intake.take())), schema=WIRE).to_pylist() == batch


@pytest.mark.parametrize("size", [0, *range(119, 130), *range(16_375, 16_386), 2_097_146, 2_097_147, 2_097_152])
def test_the_length_of_a_frame_is_right_at_every_change_of_width(size: int) -> None:
    row = {"topic": "abc", "payload": bytes(size), "qos": 0, "retain": True}
    arrow = pa.RecordBatch.from_pylist([row], schema=WIRE)
    result = frames.encode_publishes(arrow, 4, np.zeros(1, np.uint8), np.zeros(1, np.uint16))
    assert result.data.tobytes() == encode_publish(row, 4, 0, 0, False)
