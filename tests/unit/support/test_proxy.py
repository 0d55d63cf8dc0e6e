"""The wire with its faults: each does what its name says, and nothing else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from support.packets import PINGREQ, PUBACK, PUBREL, Packets
from support.proxy import Proxy

PING = bytes([PINGREQ << 4, 0])
ACKS = [bytes([PUBACK << 4, 2, 0, number]) for number in range(5)]


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


class Wired:
    """A wire with a socket at each end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.wire = Proxy(self._listener.getsockname()[1]).open()
        self.connect()

    def connect(self) -> None:
        """A new connection, and a packet through it: the wire knows both ends by then."""
        self._sockets.append(socket.create_connection(("127.0.0.1", self.wire.port), timeout=20))
        self._sockets.append(self._listener.accept()[0])
        self.near, self.far = self._sockets[-2:]
        self.far.settimeout(20)
        self.near.sendall(PING)
        assert exactly(self.far, 2) == PING

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._listener.close()
        self.wire.close()


@pytest.fixture
def wired() -> Iterator[Wired]:
    wired = Wired()
    yield wired
    wired.close()


def test_whole_packets_are_found_however_the_bytes_come() -> None:
    large = bytes([0x30, 0x80, 0x02]) + b"x" * 256
    stream = PING + ACKS[0] + large + ACKS[1]
    for size in (1, 2, 3, 7, len(stream)):
        packets = Packets()
        found = [one for at in range(0, len(stream), size) for one in packets.feed(stream[at : at + size])]
        assert found == [PING, ACKS[0], large, ACKS[1]]


def test_bytes_pass_both_ways(wired: Wired) -> None:
    wired.near.sendall(PING)
    assert wired.far.recv(100) == PING
    wired.far.sendall(ACKS[0])
    assert wired.near.recv(100) == ACKS[0]


@pytest.mark.parametrize("first", ["near", "far"])
def test_what_goes_the_other_way_still_passes_when_one_side_has_said_its_last(wired: Wired, first: str) -> None:
    one, other = (wired.near, wired.far) if first == "near" else (wired.far, wired.near)
    one.sendall(PING)
    one.shutdown(socket.SHUT_WR)
    assert exactly(other, 3) == PING
    other.sendall(ACKS[0])
    other.shutdown(socket.SHUT_WR)
    assert exactly(one, 5) == ACKS[0]


def test_exactly_the_next_packet_of_a_kind_is_swallowed(wired: Wired) -> None:
    moment = wired.wire.swallow(PUBACK)
    wired.far.sendall(PING + ACKS[0] + ACKS[1])
    expected = PING + ACKS[1]
    assert exactly(wired.near, len(expected)) == expected
    moment.wait()
    wired.near.sendall(ACKS[2])
    assert wired.far.recv(100) == ACKS[2], "the other direction is not concerned"


def test_a_message_that_is_sent_once_more_behind_its_release_is_seen_and_a_new_one_with_its_id_is_not(wired: Wired) -> None:
    first, again, other = b"\x34\7\0\1a\0\7xx", b"\x3c\7\0\1a\0\7xx", b"\x3c\7\0\1a\0\7yy"
    release = bytes([PUBREL << 4 | 2, 2, 0, 7])
    for packets in ([first, again], [release, other], [first, release], [again], [again, release]):
        for packet in packets:  # a cut between any two
            wired.near.sendall(packet)
            assert exactly(wired.far, len(packet)) == packet
        wired.wire.cut()
        wired.connect()
    assert wired.wire.releases["out"].broken == [b"xx"]
    assert wired.wire.releases["back"].broken == []


def test_at_a_named_moment_the_wire_is_cut_and_the_packet_does_not_pass(wired: Wired) -> None:
    wired.wire.at(PUBACK, wired.wire.cut)
    wired.far.sendall(PING + ACKS[0] + ACKS[1])
    got = b""
    while data := wired.near.recv(100):
        got += data
    assert got in (b"", PING)
    wired.connect()
    wired.far.sendall(ACKS[3])
    assert wired.near.recv(100) == ACKS[3]


def test_a_reset_is_a_reset(wired: Wired) -> None:
    wired.wire.reset()
    with pytest.raises(ConnectionResetError):
        wired.near.recv(100)


def test_a_hole_lets_nothing_pass_and_says_nothing_until_it_is_healed(wired: Wired) -> None:
    wired.wire.hole()
    wired.near.sendall(PING)
    wired.far.settimeout(0.1)
    with pytest.raises(TimeoutError):
        wired.far.recv(100)
    wired.wire.heal()
    wired.far.settimeout(20)
    assert wired.far.recv(100) == PING


@pytest.mark.parametrize("linger", [struct.pack("ii", 0, 0), struct.pack("ii", 1, 0)], ids=["an end", "a reset"])
def test_nobody_learns_through_a_hole_that_the_other_end_is_gone(wired: Wired, linger: bytes) -> None:
    wired.wire.hole()
    wired.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    wired.far.close()
    wired.near.settimeout(0.1)
    with pytest.raises(TimeoutError):
        wired.near.recv(100)
    wired.wire.heal()
    wired.near.settimeout(20)
    assert wired.near.recv(100) == b""


def test_a_hole_can_be_cut(wired: Wired) -> None:
    wired.wire.hole()
    wired.near.sendall(PING)
    wired.wire.cut()
    assert wired.far.recv(100) == b""


def test_a_throttled_wire_hands_on_all_of_it_when_it_is_healed(wired: Wired) -> None:
    wired.wire.throttle(1000)
    packet = bytes([0x30, 0xD0, 0x0F]) + b"x" * 2000
    wired.near.sendall(packet)
    first = wired.far.recv(5000)
    assert 0 < len(first) < len(packet)
    wired.wire.heal()
    assert first + exactly(wired.far, len(packet) - len(first)) == packet


def test_the_end_of_one_side_reaches_the_other_behind_what_it_sent(wired: Wired) -> None:
    wired.near.sendall(PING)
    wired.near.shutdown(socket.SHUT_WR)
    assert exactly(wired.far, 2) == PING
    assert wired.far.recv(100) == b""


def test_a_closed_wire_refuses_and_opens_again_on_the_same_port(wired: Wired) -> None:
    threads = threading.active_count()
    wired.wire.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", wired.wire.port), timeout=20)
    assert threading.active_count() < threads
    wired.wire.open()
    wired.connect()
    wired.near.sendall(PING)
    assert wired.far.recv(100) == PING
