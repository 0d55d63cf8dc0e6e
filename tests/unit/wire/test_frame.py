"""The fixed header: where a packet ends, found before any of it is kept."""

from __future__ import annotations

import pytest

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode import frame
from bridgehead.wire.fields import write_varint
from bridgehead.wire.reason import Reason


@pytest.mark.parametrize(
    ("remaining", "header_length"),
    [(0, 2), (127, 2), (128, 3), (16_383, 3), (16_384, 4), (2_097_151, 4), (2_097_152, 5), (268_435_455, 5)],
)
def test_every_size_of_length_is_read(remaining: int, header_length: int) -> None:
    assert frame(b"\x30" + write_varint(remaining), 300_000_000) == (0x30, header_length, remaining)


def test_a_packet_may_be_as_large_as_the_limit_header_included() -> None:
    assert frame(b"\x30\x08", 10) == (0x30, 2, 8)
    with pytest.raises(ProtocolError) as refusal:
        frame(b"\x30\x09", 10)
    assert refusal.value.reason == Reason.PACKET_TOO_LARGE


def test_a_packet_too_large_is_refused_from_its_header_alone() -> None:
    with pytest.raises(ProtocolError) as refusal:
        frame(b"\x30\xff\xff\xff\x7f", 1_000_000)
    assert refusal.value.reason == Reason.PACKET_TOO_LARGE


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x80", b"\x30\xff\xff\xff"])
def test_a_header_that_is_not_there_yet_is_awaited(data: bytes) -> None:
    assert frame(data, 300_000_000) is None


def test_a_length_without_end_is_refused_at_its_fourth_byte() -> None:
    with pytest.raises(ProtocolError) as refusal:
        frame(b"\x30\x80\x80\x80\x80", 300_000_000)
    assert refusal.value.reason == Reason.MALFORMED_PACKET


def test_the_reserved_packet_type_is_refused_before_its_length_is_there() -> None:
    with pytest.raises(ProtocolError) as refusal:
        frame(b"\x0f", 300_000_000)
    assert refusal.value.reason == Reason.MALFORMED_PACKET


def test_a_needless_byte_in_the_length_is_forgiven_before_5() -> None:
    assert frame(b"\xc0\x80\x00", 300_000_000, version=4) == (0xC0, 3, 0)


def test_the_header_is_read_where_the_caller_says() -> None:
    stream = bytearray(b"\xc0\x00\x30\x03\x00\x01a\xd0")
    assert frame(stream, 100, start=2) == (0x30, 2, 3)
    assert frame(memoryview(stream), 100, start=7) is None
    assert frame(stream, 100, start=8) is None
