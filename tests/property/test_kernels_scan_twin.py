"""Scan and columns agree with their plain twin on whatever comes over the wire, also on what is broken or cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.schema import WIRE
from bridgehead.wire import kernels_columns, kernels_scan, plain_scan
from bridgehead.wire.intake import Intake
from bridgehead.wire.kernels_columns import to_columns

text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6).map(lambda s: s.encode())
topics = st.one_of(st.sampled_from([b"a", b"a/b", b"", b"a/+", b"#", b"\xff", b"a\0"]), text, st.just(b"plain/topic"))
blobs = st.binary(max_size=12)


def field(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


publish_property = st.one_of(
    st.integers(0, 1).map(lambda v: bytes([1, v])),
    st.integers(0, 2**32 - 1).map(lambda v: b"\x02" + v.to_bytes(4, "big")),
    text.map(lambda v: b"\x03" + field(v)),
    text.map(lambda v: b"\x08" + field(v)),
    blobs.map(lambda v: b"\x09" + field(v)),
    st.tuples(text, text).map(lambda v: b"\x26" + field(v[0]) + field(v[1])),
    st.integers(0, 300_000).map(lambda v: b"\x0b" + varint(v)),
)
odd_property = st.one_of(st.just(b"\x23\x00\x01"), st.just(b"\x01\x02"), blobs, st.just(b"\x1f\x00\x00"))
properties = st.one_of(
    st.lists(publish_property, max_size=4, unique_by=lambda p: p[0] if p[0] not in (0x26, 0x0B) else p),
    st.lists(st.one_of(publish_property, odd_property), max_size=3),
).map(b"".join)


@st.composite
def publishes(draw: Any, version: int) -> bytes:
    flags = draw(st.sampled_from([0, 0, 1, 2, 3, 4, 5, 8, 10, 12, 6]))
    body = field(draw(topics))
    if flags & 6:
        body += draw(st.integers(0, 4)).to_bytes(2, "big")
    if version == 5:
        props = draw(properties)
        body += varint(len(props)) + props
    body += draw(blobs)
    return bytes([0x30 | flags]) + varint(len(body)) + body


ACK_PROPERTIES = [b"", b"\x1f\x00\x01x", b"\x26\x00\x00\x00\x00", b"\x1f\x00\x00\x1f\x00\x00", b"\x01"]


@st.composite
def acks(draw: Any) -> bytes:
    first = draw(st.sampled_from([0x40, 0x50, 0x62, 0x62, 0x70, 0x60, 0x41]))
    body = draw(st.integers(0, 4)).to_bytes(2, "big")
    if draw(st.booleans()):
        body += bytes([draw(st.integers(0, 255))])
        if draw(st.booleans()):
            props = draw(st.sampled_from(ACK_PROPERTIES))
            body += varint(len(props)) + props
    return bytes([first]) + varint(len(body)) + body


@st.composite
def streams(draw: Any) -> tuple[int, bytes]:
    version = draw(st.sampled_from([4, 5]))
    parts = draw(
        st.lists(st.one_of(publishes(version), publishes(version), acks(), st.just(b"\xc0\x00"), blobs), max_size=8)
    )
    data = bytearray(b"".join(parts))
    if data and draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return version, bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


def properties_row(found: plain_scan.PlainProperties) -> dict[str, Any]:
    return {
        "message_expiry": found.message_expiry,
        "payload_format": found.payload_format,
        "content_type": found.content_type,
        "response_topic": found.response_topic,
        "correlation_data": found.correlation_data,
        "user_properties": [{"key": key, "value": value} for key, value in found.user_properties],
    }


@settings(max_examples=600, deadline=None)
@given(streams(), st.sampled_from([20, 268_435_460]), st.booleans(), st.integers(0, 3))
def test_the_kernels_say_what_their_plain_twin_says(
    stream: tuple[int, bytes], max_packet: int, from_server: bool, before: int
) -> None:
    version, data = stream
    expected_inbound: set[int] = {2}
    expected = plain_scan.scan(data, version, expected_inbound, max_packet, from_server)

    intake, inbound = Intake(), np.zeros(65536, np.uint8)
    earlier = b"\x30\x05\x00\x01xyz" * before
    intake.scan(bytearray(earlier), 0, len(earlier), 4, 9, np.zeros(65536, np.uint8))
    inbound[2] = 1
    framed = bytearray(b"!" * before + data + b"!" * before)
    result = intake.scan(framed, before, before + len(data), version, 1, inbound, max_packet, from_server=from_server)

    assert (result.consumed - before, result.stop, result.reason) == (expected.consumed, expected.stop, expected.reason)
    assert (result.need, result.published, result.released) == (expected.need, expected.published, expected.released)
    changed = expected.changed
    assert (result.ids_from, result.ids_to) == ((min(changed), max(changed) + 1) if changed else (0, 0))
    assert (result.replies, result.acks.tolist()) == (expected.replies, expected.acks)
    assert set(np.flatnonzero(inbound).tolist()) == expected_inbound
    assert (result.row_from, result.row_to) == (before, before + len(expected.messages))

    rows, arena = intake.take()
    batch = pa.RecordBatch.from_arrays(list(to_columns(rows[before:], arena)), schema=WIRE)
    batch.validate(full=True)
    assert batch.to_pylist() == [
        {"topic": m.topic, "payload": m.payload, "qos": m.qos, "retain": m.retain, **properties_row(m.properties)}
        for m in expected.messages
    ]
    wire_flags = [m.qos | m.retain << 2 | m.dup << 3 for m in expected.messages]
    assert rows[before:, kernels_scan.FLAGS].tolist() == wire_flags
    assert rows[before:, kernels_scan.PACKET_ID].tolist() == [m.packet_id for m in expected.messages]


@settings(max_examples=200, deadline=None)
@given(streams(), st.integers(1, 7))
def test_bytes_that_come_in_pieces_give_what_they_give_at_once(stream: tuple[int, bytes], piece: int) -> None:
    version, data = stream
    whole, whole_inbound = Intake(), np.zeros(65536, np.uint8)
    at_once = whole.scan(bytearray(data), 0, len(data), version, 1, whole_inbound)

    intake, inbound, buf = Intake(), np.zeros(65536, np.uint8), bytearray(data)
    start, replies, result = 0, b"", None
    for end in [*range(piece, len(data), piece), len(data)]:
        result = intake.scan(buf, start, end, version, 1, inbound)
        start, replies = result.consumed, replies + result.replies
        if result.stop != kernels_scan.NEED_MORE:
            break
    assert result is not None
    assert (start, result.stop, result.reason) == (at_once.consumed, at_once.stop, at_once.reason)
    assert replies == at_once.replies
    assert to_columns(*intake.take()) == to_columns(*whole.take())


@given(st.binary(max_size=6))
def test_text_is_accepted_exactly_when_python_accepts_it(data: bytes) -> None:
    try:
        valid = "\0" not in data.decode()
    except UnicodeDecodeError:
        valid = False
    fault = kernels_scan._text_fault(np.frombuffer(bytearray(data), np.uint8), 0, len(data))
    assert (fault != kernels_scan.MALFORMED) == valid


def test_columns_and_scan_mean_the_same_row_layout() -> None:
    for name in ("FLAGS", "TOPIC_START", "TOPIC_LEN", "PROPS_START", "PROPS_LEN", "PAYLOAD_START", "PAYLOAD_LEN"):
        assert getattr(kernels_columns, f"_{name}") == getattr(kernels_scan, name)
