"""Bad input to a live node: the right answer, only that connection closes, and everybody else goes on working."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from bridgehead.wire.packettype import PacketType
from support.client import Client, Message
from support.node import NodeProcess
from support.raw import connect_packet, packet, read_exactly, read_packet, text
from vectors.packets import HEADER_REFUSED, REFUSED, VALID, Case

CONNECT = 1
ONLY_FROM_SERVERS = {PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP}
UNSUPPORTED_VERSION, CLIENT_ID, PROTOCOL_ERROR, ALIAS_INVALID = 0x84, 0x85, 0x82, 0x94
RETURN_CODES = {UNSUPPORTED_VERSION: 1, CLIENT_ID: 2}  # the two faults of a CONNECT that 3.1.1 has a code for

OTHER_REASON = {
    # The node announces no topic aliases, so any alias is invalid, before anything else about it is.
    "topic alias 0 [MQTT-3.3.2-8]": ALIAS_INVALID,
    "two topic aliases": ALIAS_INVALID,
    # A client may send no subscription identifier at all, whatever its form.
    "a subscription identifier with a needless byte [MQTT-1.5.5-1]": PROTOCOL_ERROR,
    "a subscription identifier of five bytes": PROTOCOL_ERROR,
}


def _kind(case: Case) -> int:
    return case.first_byte >> 4


def _takes_unknown_reason(case: Case) -> bool:
    """An acknowledgement with a reason code of its own invention is understood: a cut would help nobody."""
    return 4 <= _kind(case) <= 7 and case.name.startswith("a reason code unknown")


CONNECTS = [case for case in REFUSED if _kind(case) == CONNECT]
LATER = [case for case in (*REFUSED, *HEADER_REFUSED) if _kind(case) != CONNECT and not _takes_unknown_reason(case)]
TOLERATED = [case for case in REFUSED if _takes_unknown_reason(case)]
OUT_OF_PLACE = [case for case in VALID if PacketType(_kind(case)) in ONLY_FROM_SERVERS | {PacketType.AUTH}]


def the(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=str)


@pytest.fixture(scope="module")
def bystander(plain_node: NodeProcess) -> Iterator[Client]:
    with Client(plain_node.port) as client:
        client.subscribe("bystander/#")
        yield client


@pytest.fixture(autouse=True)
def _others_go_on(bystander: Client) -> Iterator[None]:
    """After every test, a client that was there all the time still gets its messages."""
    yield
    payload = uuid.uuid4().bytes
    bystander.publish_all([Message("bystander/x", payload, 1)])
    bystander.wait_until(lambda messages: messages[-1].payload == payload if messages else False, "the message comes")
    bystander.messages.clear()
    assert not bystander.disconnected.is_set()


@pytest.fixture
def raw(plain_node: NodeProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", plain_node.port), timeout=60) as connection:
        yield connection


def connected(raw: socket.socket, level: int) -> socket.socket:
    raw.sendall(connect_packet(level, f"raw-{uuid.uuid4().hex}"))
    assert read_packet(raw)[0] == 0x20
    return raw


def rest(raw: socket.socket) -> bytes:
    """Everything until the node closes."""
    return b"".join(iter(lambda: raw.recv(4096), b""))


def disconnect(level: int, reason: int) -> bytes:
    """What a refused client is told: 3.1.1 has no DISCONNECT from a server."""
    return bytes([0xE0, 1, reason]) if level == 5 else b""


@the(LATER)
def test_a_bad_packet_closes_its_connection_with_the_reason(raw: socket.socket, case: Case) -> None:
    connected(raw, case.version).sendall(case.data)
    assert case.reason is not None
    assert rest(raw) == disconnect(case.version, OTHER_REASON.get(case.name, case.reason))


@the(OUT_OF_PLACE)
def test_a_packet_that_only_a_server_sends_or_nobody_asked_for_is_a_protocol_error(raw: socket.socket, case: Case) -> None:
    connected(raw, case.version).sendall(case.data)
    assert rest(raw) == disconnect(case.version, PROTOCOL_ERROR)


@the(TOLERATED)
def test_an_acknowledgement_with_an_unknown_reason_is_taken(raw: socket.socket, case: Case) -> None:
    connected(raw, case.version).sendall(case.data + b"\xc0\x00")
    first_byte, _ = read_packet(raw)
    if first_byte >> 4 in (6, 7):  # the answer to a PUBREC or PUBREL
        first_byte, _ = read_packet(raw)
    assert first_byte == 0xD0


@the(CONNECTS)
def test_a_bad_connect_is_answered_with_the_reason_where_its_version_has_one(raw: socket.socket, case: Case) -> None:
    raw.sendall(case.data)
    assert case.reason is not None
    if case.reason in RETURN_CODES and (case.version < 5 or case.reason == UNSUPPORTED_VERSION):
        # A version we do not know is answered in the oldest form, which every client can read.
        assert rest(raw) == bytes([0x20, 2, 0, RETURN_CODES[case.reason]])
    elif case.version == 5:
        assert rest(raw) == bytes([0x20, 3, 0, case.reason, 0])
    else:
        assert rest(raw) == b""


@the([case for case in VALID if case.version == 5 and _kind(case) == 3 and b"\x23\x00" in case.data])
def test_a_topic_alias_is_refused_for_none_was_offered(raw: socket.socket, case: Case) -> None:
    connected(raw, 5).sendall(case.data)
    assert rest(raw) == disconnect(5, ALIAS_INVALID)


def test_enhanced_authentication_is_refused(raw: socket.socket) -> None:
    section = b"\x15" + text("SCRAM")
    raw.sendall(packet(0x10, text("MQTT") + b"\x05\x02\x00\x3c" + bytes([len(section)]) + section + text("c")))
    assert rest(raw) == bytes([0x20, 3, 0, 0x8C, 0])


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_connect_is_a_protocol_error(raw: socket.socket, level: int) -> None:
    connected(raw, level).sendall(connect_packet(level, "again"))
    assert rest(raw) == disconnect(level, PROTOCOL_ERROR)


@the([case for case in VALID if _kind(case) != CONNECT and case.canonical and len(case.data) < 1000])
def test_a_first_packet_that_is_no_connect_is_answered_with_silence(raw: socket.socket, case: Case) -> None:
    raw.sendall(case.data)
    assert rest(raw) == b""


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("1603010200010001fc0303"), b"\xff" * 64])
def test_another_protocol_is_answered_with_silence(raw: socket.socket, data: bytes) -> None:
    raw.sendall(data)
    assert rest(raw) == b""


def test_a_stranger_who_announces_a_huge_connect_is_closed_before_it_comes(raw: socket.socket) -> None:
    raw.sendall(b"\x10\xff\xff\xff\x7f")
    assert rest(raw) == b""


@pytest.mark.parametrize("level", [4, 5])
def test_what_was_sent_before_a_bad_packet_is_acknowledged_and_delivered(
    raw: socket.socket, bystander: Client, level: int
) -> None:
    section = b"\0" if level == 5 else b""
    good = packet(0x32, text("bystander/good") + b"\x00\x07" + section + b"good")
    connected(raw, level).sendall(good + b"\x36\x00" + good)
    assert rest(raw) == b"\x40\x02\x00\x07" + disconnect(level, 0x81)
    bystander.wait_for(1)
    assert [message.payload for message in bystander.barrier()] == [b"good"]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_packets_may_come_in_pieces_of_any_size(raw: socket.socket, bystander: Client, step: int) -> None:
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    count = 50
    topic = text(f"bystander/{step}")
    numbers = range(1, count + 1)
    stream = b"".join(packet(0x32, topic + number.to_bytes(2, "big") + b"\0" + b"x" * number) for number in numbers)
    connected(raw, 5)
    for start in range(0, len(stream), step):
        raw.sendall(stream[start : start + step])
    assert read_exactly(raw, 4 * count) == b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in numbers)
    bystander.wait_for(count)
    assert [len(message.payload) for message in bystander.barrier()] == list(numbers)


def test_refusals_are_counted_by_their_reason(plain_node: NodeProcess, raw: socket.socket) -> None:
    before = plain_node.status()["broker"]["refused"].get("malformed_packet", 0)
    connected(raw, 5).sendall(b"\x36\x00")
    assert rest(raw) == disconnect(5, 0x81)
    assert plain_node.status()["broker"]["refused"]["malformed_packet"] == before + 1
