"""The scan, case by case: what is taken, what is answered, where it stops and why."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.wire import kernels_scan as k
from bridgehead.wire.intake import (
    CONTROL,
    ERROR,
    MAX_PACKET,
    NEED_MORE,
    Intake,
    ScanResult,
    refused_replies,
    replies,
)


def publish(
    topic: bytes = b"t",
    payload: bytes = b"",
    qos: int = 0,
    packet_id: int = 1,
    props: bytes | None = None,
    flags: int = 0,
) -> bytes:
    body = len(topic).to_bytes(2, "big") + topic
    if qos:
        body += packet_id.to_bytes(2, "big")
    if props is not None:
        body += varint(len(props)) + props
    body += payload
    return bytes([0x30 | qos << 1 | flags]) + varint(len(body)) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Peer:
    """One connection and the intake it feeds."""

    def __init__(self, version: int = 5, from_server: bool = False) -> None:
        self.intake = Intake()
        self.inbound = np.zeros(65536, np.uint8)
        self.version = version
        self.from_server = from_server

    def scan(self, data: bytes, max_packet: int = MAX_PACKET) -> ScanResult:
        return self.intake.scan(
            bytearray(data), 0, len(data), self.version, 7, self.inbound, max_packet, from_server=self.from_server
        )


def test_a_message_is_described_by_positions_in_the_arena() -> None:
    peer = Peer(4)
    data = publish(b"a/b", b"hello", 1, 258, flags=0x09)
    result = peer.scan(data)
    assert (result.consumed, result.stop, result.row_from, result.row_to) == (len(data), NEED_MORE, 0, 1)
    assert result.replies == b"\x40\x02\x01\x02"
    rows, arena = peer.intake.take()
    row = rows[0]
    assert (row[k.CONN], row[k.FLAGS], row[k.PACKET_ID]) == (7, 1 | k.RETAIN_FLAG | k.DUP_FLAG, 258)
    assert bytes(arena[row[k.TOPIC_START] : row[k.TOPIC_START] + row[k.TOPIC_LEN]]) == b"a/b"
    assert bytes(arena[row[k.PAYLOAD_START] : row[k.PAYLOAD_START] + row[k.PAYLOAD_LEN]]) == b"hello"
    assert row[k.PROPS_LEN] == 0


def test_qos_2_is_taken_once_until_it_is_released() -> None:
    peer = Peer(4)
    message, release = publish(qos=2, packet_id=5), b"\x62\x02\x00\x05"
    result = peer.scan(message + message + release + message)
    assert (result.row_to, result.published, result.released) == (2, 3, 1)
    assert result.replies == b"\x50\x02\x00\x05" * 2 + b"\x70\x02\x00\x05" + b"\x50\x02\x00\x05"
    assert peer.inbound[5] == 1


def test_a_release_of_an_unknown_id_is_told_so_in_mqtt_5_only() -> None:
    assert Peer(5).scan(b"\x62\x02\x00\x09").replies == b"\x70\x03\x00\x09\x92"
    assert Peer(4).scan(b"\x62\x02\x00\x09").replies == b"\x70\x02\x00\x09"


def test_acknowledgements_are_handed_over_with_their_reason() -> None:
    data = b"\x40\x02\x00\x01" + b"\x50\x03\x00\x02\x97" + b"\x70\x04\x00\x03\x92\x00"
    data += b"\x40\x09\x00\x04\x10\x05\x1f\x00\x02no"
    result = Peer().scan(data)
    assert result.acks.tolist() == [[4, 1, 0], [5, 2, 0x97], [7, 3, 0x92], [4, 4, 0x10]]
    assert (result.consumed, result.replies) == (len(data), b"")


def test_another_packet_stops_the_scan_and_its_length_is_told() -> None:
    data = publish(b"a") + b"\xc0\x00" + publish(b"b")
    result = Peer(4).scan(data)
    assert (result.stop, result.consumed, result.need, result.row_to) == (CONTROL, 5, 2, 1)


def test_an_incomplete_packet_tells_how_long_it_will_be() -> None:
    data = publish(b"a", b"x" * 300)
    assert Peer(4).scan(data[:10]).need == len(data)
    assert Peer(4).scan(data[:2]).need == 0
    assert Peer(4).scan(b"\x10\x20\x00").stop == NEED_MORE


def test_a_packet_above_the_limit_is_refused_from_its_header() -> None:
    result = Peer().scan(b"\x3f\xff\xff\xff\x7f", max_packet=1000)
    assert (result.stop, result.reason) == (ERROR, 0x95)
    assert Peer(4).scan(publish(b"abc"), max_packet=len(publish(b"abc"))).row_to == 1
    assert Peer(4).scan(publish(b"abc"), max_packet=len(publish(b"abc")) - 1).reason == 0x95


def test_what_stands_before_an_error_has_been_taken() -> None:
    peer = Peer(4)
    result = peer.scan(publish(b"a", qos=1, packet_id=3) + publish(b"#"))
    assert (result.stop, result.reason, result.row_to, result.replies) == (ERROR, 0x90, 1, b"\x40\x02\x00\x03")


FAULTS = {
    "qos 3": (4, b"\x36\x05\x00\x01a\x00\x01", 0x81),
    "dup with qos 0": (4, publish(flags=8), 0x82),
    "remaining length of five bytes": (4, b"\x30\xff\xff\xff\xff\x01", 0x81),
    "remaining length with a needless byte": (5, b"\x40\x82\x00\x00\x01", 0x81),
    "packet id 0": (4, publish(qos=1, packet_id=0), 0x82),
    "packet id cut off": (4, b"\x32\x04\x00\x01a\x00", 0x81),
    "topic longer than the packet": (4, b"\x30\x03\x00\x05a", 0x81),
    "no topic length": (4, b"\x30\x01\x00", 0x81),
    "empty topic": (4, publish(b""), 0x82),
    "empty topic in 5": (5, publish(b"", props=b""), 0x82),
    "wildcard + in topic": (4, publish(b"a/+"), 0x90),
    "null in topic": (4, publish(b"a\0"), 0x81),
    "overlong two bytes": (4, publish(b"\xc0\xaf"), 0x81),
    "overlong three bytes": (4, publish(b"\xe0\x80\xaf"), 0x81),
    "overlong four bytes": (4, publish(b"\xf0\x80\x80\xaf"), 0x81),
    "surrogate": (4, publish(b"\xed\xa0\x80"), 0x81),
    "above U+10FFFF": (4, publish(b"\xf4\x90\x80\x80"), 0x81),
    "text cut in a character": (4, publish(b"a\xe2\x82"), 0x81),
    "lone continuation": (4, publish(b"\x80"), 0x81),
    "topic alias": (5, publish(props=b"\x23\x00\x01"), 0x94),
    "topic alias and empty topic": (5, publish(b"", props=b"\x23\x00\x01"), 0x94),
    "property length beyond the packet": (5, b"\x30\x05\x00\x01a\x05\x01", 0x81),
    "no property length": (5, b"\x30\x03\x00\x01a", 0x81),
    "payload format 2": (5, publish(props=b"\x01\x02"), 0x82),
    "payload format twice": (5, publish(props=b"\x01\x01\x01\x01"), 0x82),
    "expiry cut short": (5, publish(props=b"\x02\x00\x00"), 0x81),
    "content type not UTF-8": (5, publish(props=b"\x03\x00\x01\xff"), 0x81),
    "response topic with wildcard": (5, publish(props=b"\x08\x00\x01#"), 0x82),
    "response topic empty": (5, publish(props=b"\x08\x00\x00"), 0x82),
    "subscription identifier from a client": (5, publish(props=b"\x0b\x01"), 0x82),
    "property of another packet": (5, publish(props=b"\x11\x00\x00\x00\x01"), 0x81),
    "unknown property": (5, publish(props=b"\x7f"), 0x81),
    "user property without value": (5, publish(props=b"\x26\x00\x01k"), 0x81),
    "puback with flags": (4, b"\x41\x02\x00\x01", 0x81),
    "pubrel without its flags": (4, b"\x60\x02\x00\x01", 0x81),
    "ack of one byte": (5, b"\x40\x01\x00", 0x81),
    "ack with id 0": (5, b"\x40\x02\x00\x00", 0x82),
    "long ack in 3.1.1": (4, b"\x40\x03\x00\x01\x00", 0x81),
    "ack property length wrong": (5, b"\x40\x04\x00\x01\x00\x01", 0x81),
    "ack property of another packet": (5, b"\x40\x06\x00\x01\x00\x02\x01\x00", 0x81),
    "reason string twice": (5, b"\x40\x0a\x00\x01\x00\x06\x1f\x00\x00\x1f\x00\x00", 0x82),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_with_its_reason(name: str) -> None:
    version, data, reason = FAULTS[name]
    result = Peer(version).scan(data)
    assert (result.stop, hex(result.reason), result.consumed, result.row_to) == (ERROR, hex(reason), 0, 0)


def test_a_server_may_send_subscription_identifiers_but_not_0() -> None:
    assert Peer(from_server=True).scan(publish(props=b"\x0b\x01\x0b\xff\x01")).row_to == 1
    assert Peer(from_server=True).scan(publish(props=b"\x0b\x00")).reason == 0x82


EDGES = "\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"


@pytest.mark.parametrize("topic", ["ä", "€/ü", "😀", EDGES, "\ufeffa", "$SYS/x"])
def test_every_valid_topic_is_taken(topic: str) -> None:
    assert Peer(4).scan(publish(topic.encode())).row_to == 1


def test_a_run_larger_than_every_buffer_is_taken_whole() -> None:
    peer = Peer(4)
    first = publish(b"first", b"f" * 10)
    peer.scan(first)
    run = b"".join(publish(b"t%d" % i, b"x" * (i % 50), 2, i + 1) + b"\x40\x02" + varint16(i + 1) for i in range(5000))
    result = peer.scan(run + b"\x30")
    assert (result.consumed, result.row_from, result.row_to) == (len(run), 1, 5001)
    assert (len(result.replies), len(result.acks)) == (20000, 5000)
    assert result.acks[:, 1].tolist() == list(range(1, 5001))
    rows, arena = peer.intake.take()
    for i in (0, 1, 1023, 1024, 5000):
        row = rows[i]
        topic = bytes(arena[row[k.TOPIC_START] : row[k.TOPIC_START] + row[k.TOPIC_LEN]])
        assert topic == (b"first" if i == 0 else b"t%d" % (i - 1))


def varint16(value: int) -> bytes:
    return value.to_bytes(2, "big")


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_what_was_taken_stays_when_the_intake_goes_on(size: int) -> None:
    peer = Peer(4)
    peer.scan(publish(b"a", b"1" * size))
    rows, arena = peer.intake.take()
    kept = arena.tobytes(), rows.tobytes()
    peer.scan(publish(b"b", b"2" * size))
    assert (arena.tobytes(), rows.tobytes()) == kept
    assert len(peer.intake.take().rows) == 1
    assert len(peer.intake.take().rows) == 0


def test_read_only_bytes_are_taken_too_and_positions_refer_to_them() -> None:
    data = b"junk" + publish(b"a", b"x")
    peer = Peer(4)
    result = peer.intake.scan(data, 4, len(data), 4, 1, peer.inbound)
    assert (result.consumed, result.row_to) == (len(data), 1)


def test_replies_are_built_anew_for_a_refused_run() -> None:
    peer = Peer()
    run = publish(qos=1, packet_id=1, props=b"") + publish(props=b"") + publish(qos=2, packet_id=2, props=b"")
    result = peer.scan(run + b"\x62\x02\x00\x02")
    rows = peer.intake.take().rows
    assert replies(5, rows) + b"\x70\x02\x00\x02" == result.replies
    assert replies(5, rows, 0x87) == b"\x40\x03\x00\x01\x87\x50\x03\x00\x02\x87"
    assert replies(4, rows, 0x87) == b"\x40\x02\x00\x01\x50\x02\x00\x02"
    assert refused_replies(result.replies, 5, {2: 0x97}) == b"\x40\x02\x00\x01\x50\x03\x00\x02\x97\x70\x02\x00\x02"
