"""Packets nobody thought of: random objects come back unchanged, random bytes never break the decoder."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode import decode, frame
from bridgehead.wire.decode_connect import refusal_version
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Packet
from vectors.packets import VALID, Case
from vectors.strategies import packets

UNLIMITED = 300_000_000
VERSIONS = pytest.mark.parametrize("version", [3, 4, 5])


def read(data: bytes, version: int) -> Packet:
    header = frame(data, UNLIMITED, version=version)
    assert header is not None
    first_byte, header_length, remaining = header
    assert header_length + remaining == len(data)
    return decode(first_byte, data[header_length:], version)


@VERSIONS
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back_unchanged(version: int, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    assert read(encode(packet, version), version) == packet


@VERSIONS
@given(first_byte=st.integers(0, 255), body=st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_random_bytes_are_a_packet_or_a_protocol_error(version: int, first_byte: int, body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        packet = decode(first_byte, body, version)
        assert read(encode(packet, version), version) == packet


@given(case=st.sampled_from([case for case in VALID if len(case.data) < 2000]), data=st.data())
@settings(max_examples=500, deadline=None)
def test_a_packet_with_one_byte_changed_is_a_packet_or_a_protocol_error(case: Case, data: st.DataObject) -> None:
    body = bytearray(case.body or b"\0")
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        packet = decode(case.first_byte, memoryview(body), case.version)
        assert read(encode(packet, case.version), case.version) == packet


@given(data=st.binary(max_size=12), version=st.sampled_from([4, 5]))
@settings(max_examples=500, deadline=None)
def test_random_headers_are_read_refused_or_awaited(data: bytes, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        header = frame(data, UNLIMITED, version=version)
        if header is not None:
            assert header[0] == data[0]
            assert 2 <= header[1] <= 5


@given(body=st.binary(max_size=20))
def test_who_sends_random_bytes_first_gets_an_answer_or_none(body: bytes) -> None:
    assert refusal_version(body) in (None, 4, 5)
