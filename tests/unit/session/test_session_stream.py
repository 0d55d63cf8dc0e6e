"""A peer's bytes as items: runs of hot packets, control packets, or a fault."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.session.rows import unreceive, wire_batch
from bridgehead.session.stream import CONNECT_LIMIT, Fault, PacketStream
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Intake, ScanResult
from bridgehead.wire.packets import Connack, Connect, Packet, Pingreq, Puback, Publish, Pubrel, Subscribe, Subscription
from bridgehead.wire.reason import Reason

Item = ScanResult | Packet | Fault


def feed(stream: PacketStream, data: bytes, intake: Intake | None = None) -> list[Item]:
    return list(stream.feed(np.frombuffer(bytearray(data), np.uint8), len(data), intake or Intake(), 1))


def server(version: int = 5) -> PacketStream:
    stream = PacketStream(from_server=False, version=version)
    stream.inbound = np.zeros(1 << 16, np.uint8)
    return stream


def test_the_first_packet_of_a_client_is_connect() -> None:
    stream = PacketStream(from_server=False)
    [packet] = feed(stream, encode(Connect(5, "c"), 5))
    assert isinstance(packet, Connect)


@pytest.mark.parametrize("packet", [Publish("a"), Pingreq(), Puback(1)])
def test_anything_else_first_is_a_fault(packet: Packet) -> None:
    [fault] = feed(PacketStream(from_server=False), encode(packet, 5))
    assert isinstance(fault, Fault)
    assert fault.reason == Reason.PROTOCOL_ERROR


def test_a_peer_that_has_not_said_who_it_is_gets_little_room() -> None:
    announced = b"\x10" + bytes([0xFF, 0xFF, 0xFF, 0x7F])
    [fault] = feed(PacketStream(from_server=False), announced)
    assert isinstance(fault, Fault)
    assert fault.reason == Reason.PACKET_TOO_LARGE
    assert CONNECT_LIMIT < 2**21


def test_hot_packets_come_as_runs_and_control_packets_one_by_one_in_their_order() -> None:
    intake = Intake()
    items = feed(
        server(),
        b"".join(
            encode(p, 5)
            for p in (
                Publish("a", b"1", 1, packet_id=1),
                Publish("a", b"2", 2, packet_id=2),
                Pingreq(),
                Subscribe(3, [Subscription("x")]),
                Puback(9),
                Pubrel(2),
                Publish("b", b"3"),
            )
        ),
        intake,
    )
    assert [type(item).__name__ for item in items] == ["ScanResult", "Pingreq", "Subscribe", "ScanResult"]
    first, second = items[0], items[3]
    assert isinstance(first, ScanResult)
    assert isinstance(second, ScanResult)
    assert (first.row_from, first.row_to, second.row_to) == (0, 2, 3)
    assert second.acks.tolist() == [[4, 9, 0]]
    assert second.replies == b"\x70\x02\x00\x02"
    assert wire_batch(intake.take()).column("payload").to_pylist() == [b"1", b"2", b"3"]


def test_what_stands_before_a_fault_is_still_handed_out() -> None:
    intake = Intake()
    items = feed(server(), encode(Publish("a", b"1"), 5) + encode(Publish("a/#", b"2"), 5), intake)
    assert [type(item).__name__ for item in items] == ["ScanResult", "Fault"]
    assert isinstance(items[1], Fault)
    assert items[1].reason == Reason.TOPIC_NAME_INVALID
    assert intake.rows_used == 1


def test_whoever_stops_asking_stops_the_scan() -> None:
    stream, intake = server(), Intake()
    data = np.frombuffer(bytearray(encode(Pingreq(), 5) + encode(Publish("a"), 5)), np.uint8)
    for item in stream.feed(data, len(data), intake, 1):
        assert isinstance(item, Pingreq)
        break
    assert intake.rows_used == 0


def test_before_connack_a_message_of_the_server_is_a_plain_packet_that_nobody_counts() -> None:
    stream, intake = PacketStream(from_server=True, version=5), Intake()
    stream.greeted = False
    [packet] = feed(stream, encode(Publish("a", b"x", 2, packet_id=4), 5), intake)
    assert isinstance(packet, Publish)
    assert intake.rows_used == 0
    assert not stream.inbound.any()
    feed(stream, encode(Connack(), 5), intake)
    stream.greeted = True
    feed(stream, encode(Publish("a", b"x", 2, packet_id=4), 5), intake)
    assert intake.rows_used == 1


def test_rows_that_were_not_kept_count_as_never_received() -> None:
    stream, intake = server(), Intake()
    data = encode(Publish("a", b"1", 2, packet_id=7), 5) + encode(Publish("a", b"2", 1, packet_id=8), 5)
    feed(stream, data, intake)
    assert stream.inbound.nonzero()[0].tolist() == [7]
    unreceive(intake.take().rows, stream.inbound)
    assert not stream.inbound.any()
    feed(stream, data, intake)
    assert intake.rows_used == 2


def test_the_size_of_an_incomplete_packet_is_known_from_its_header() -> None:
    for packet in (Publish("a", bytes(5000)), Subscribe(1, [Subscription("f" * 3000)])):
        data = encode(packet, 5)
        stream = server()
        assert feed(stream, data[:10]) == []
        assert (stream.taken, stream.need) == (0, len(data))
