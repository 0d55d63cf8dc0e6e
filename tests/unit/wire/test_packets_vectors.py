"""Every case of the table: read whole, written back, with bytes behind it, and cut at every byte."""

from __future__ import annotations

import pytest

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode import decode, frame
from bridgehead.wire.encode import encode
from bridgehead.wire.packettype import PacketType
from vectors.packets import CASES, HEADER_REFUSED, REFUSED, VALID, Case

UNLIMITED = 300_000_000
SHORT = [case for case in VALID if len(case.data) < 2000]

# The last field of these is a rest without a length of its own: what is left after a cut is a packet too.
OPEN_ENDED = {PacketType.PUBLISH, PacketType.SUBSCRIBE, PacketType.SUBACK, PacketType.UNSUBSCRIBE, PacketType.UNSUBACK}
SHORT_FORMS = {PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP, PacketType.DISCONNECT,
               PacketType.AUTH}  # fmt: skip


def the(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=str)


@the(VALID)
def test_a_valid_packet_becomes_its_object(case: Case) -> None:
    assert decode(case.first_byte, case.body, case.version) == case.packet


@the(VALID)
def test_a_valid_packet_is_read_from_a_view_of_a_larger_buffer_without_keeping_it(case: Case) -> None:
    buffer = bytearray(b"\xaa" + case.body + b"\xbb")
    view = memoryview(buffer)[1:-1]
    packet = decode(case.first_byte, view, case.version)
    view.release()
    buffer[:] = bytes(len(buffer))
    buffer.clear()  # a view still held would refuse this
    assert packet == case.packet


@the([case for case in VALID if case.canonical])
def test_an_object_becomes_the_bytes_it_came_from(case: Case) -> None:
    assert case.packet is not None
    assert encode(case.packet, case.version) == case.data


@the([case for case in VALID if not case.canonical])
def test_a_packet_in_another_form_is_written_in_ours_and_means_the_same(case: Case) -> None:
    assert case.packet is not None
    written = encode(case.packet, case.version)
    header = frame(written, UNLIMITED)
    assert header is not None
    assert decode(written[0], written[header[1] :], case.version) == case.packet


@the(REFUSED)
def test_a_bad_packet_is_refused_with_the_reason_that_is_due(case: Case) -> None:
    with pytest.raises(ProtocolError) as refusal:
        decode(case.first_byte, case.body, case.version)
    assert refusal.value.reason == case.reason, str(refusal.value)


@the(REFUSED)
def test_a_bad_packet_is_refused_from_a_view_alike(case: Case) -> None:
    with pytest.raises(ProtocolError) as refusal:
        decode(case.first_byte, memoryview(bytearray(case.body)), case.version)
    assert refusal.value.reason == case.reason


@the(HEADER_REFUSED)
def test_a_bad_header_is_refused_with_the_reason_that_is_due(case: Case) -> None:
    with pytest.raises(ProtocolError) as refusal:
        frame(case.data, UNLIMITED, version=case.version)
    assert refusal.value.reason == case.reason


@the(SHORT)
def test_bytes_behind_a_packet_are_left_to_the_next(case: Case) -> None:
    first_byte, header, remaining = frame(case.data + b"\xc0\x00", UNLIMITED) or (0, 0, 0)
    assert (first_byte, header + remaining) == (case.data[0], len(case.data))


@the([case for case in SHORT if PacketType(case.first_byte >> 4) not in OPEN_ENDED])
def test_bytes_behind_the_body_are_malformed(case: Case) -> None:
    behind = b"\0" * 5  # more than any optional field of zeros could take up
    with pytest.raises(ProtocolError):
        decode(case.first_byte, case.body + behind, case.version)


@the(SHORT)
def test_a_packet_cut_at_any_byte_waits_for_more(case: Case) -> None:
    for size in range(len(case.data)):
        header = frame(case.data[:size], UNLIMITED)
        assert header is None or header[1] + header[2] > size


@the(SHORT)
def test_a_body_cut_at_any_byte_is_refused_or_is_a_shorter_packet(case: Case) -> None:
    kind = PacketType(case.first_byte >> 4)
    for size in range(len(case.body)):
        try:
            shorter = decode(case.first_byte, case.body[:size], case.version)
        except ProtocolError:
            continue
        assert kind in OPEN_ENDED | SHORT_FORMS, f"{case.body[:size].hex()} was taken"
        assert shorter != case.packet or not case.canonical


@the(CASES)
def test_the_table_says_one_thing_of_each_case(case: Case) -> None:
    assert (case.packet is None) != (case.reason is None)


def test_no_two_cases_share_version_and_bytes_or_version_and_name() -> None:
    assert len({(case.version, case.data) for case in CASES}) == len(CASES)
    names = [(case.version, case.data[0] >> 4, case.name) for case in CASES]
    assert len(set(names)) == len(names)


def test_every_packet_type_stands_in_the_table_as_valid_and_as_refused() -> None:
    every = set(PacketType) - {PacketType.WILL}
    assert {PacketType(case.first_byte >> 4) for case in VALID} == every
    assert every <= {PacketType(case.first_byte >> 4) for case in REFUSED}
