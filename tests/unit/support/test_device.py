"""A device that did not send again by the book would let a broken broker pass, or a sound one fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from support.client import Message
from support.device import Device
from support.packets import PUBACK, PUBCOMP, PUBREC
from support.raw import packet, read_packet

CONNACK_NEW, CONNACK_KEPT = packet(0x20, b"\0\0\0"), packet(0x20, b"\1\0\0")
QOS_1, QOS_2, DUP = 0x32, 0x34, 0x08
PUBREL = 0x62


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door


class Publishing:
    """A device at work in a thread, and what it makes of it."""

    def __init__(self, door: socket.socket, *messages: Message) -> None:
        self.device = Device(door.getsockname()[1])
        self._taken: list[bool] = []
        self._door = door
        self._thread = threading.Thread(target=lambda: self._taken.extend(self.device.publish_all(messages)))
        self._thread.start()

    def accept(self, connack: bytes) -> socket.socket:
        connection, _ = self._door.accept()
        read_packet(connection)
        connection.sendall(connack)
        return connection

    def done(self) -> list[bool]:
        self._thread.join(30)
        self.device.close()
        return self._taken


def seen(connection: socket.socket, count: int) -> list[tuple[int, int]]:
    """(first byte, packet id) of the next packets; topics are one character long."""
    found = [read_packet(connection) for _ in range(count)]
    return [(first, int.from_bytes(body[:2] if first == PUBREL else body[3:5], "big")) for first, body in found]


def answer(kind: int, number: int, *reason: int) -> bytes:
    return packet(kind << 4, number.to_bytes(2, "big") + bytes(reason))


def test_what_is_unanswered_at_a_cut_is_sent_again_in_order_with_the_same_ids(door: socket.socket) -> None:
    publishing = Publishing(door, Message("a", b"", 1), Message("a", b"", 2), Message("a", b"", 2), Message("a", b"", 1))
    with publishing.accept(CONNACK_NEW) as first:
        assert seen(first, 4) == [(QOS_1, 1), (QOS_2, 2), (QOS_2, 3), (QOS_1, 4)]
        first.sendall(answer(PUBREC, 2) + answer(PUBACK, 4))
        assert seen(first, 1) == [(PUBREL, 2)]
    with publishing.accept(CONNACK_KEPT) as second:
        assert seen(second, 3) == [(QOS_1 | DUP, 1), (PUBREL, 2), (QOS_2 | DUP, 3)]
        second.sendall(answer(PUBACK, 1) + answer(PUBCOMP, 2) + answer(PUBREC, 3))
        assert seen(second, 1) == [(PUBREL, 3)]
        second.sendall(answer(PUBCOMP, 3))
        assert publishing.done() == [True] * 4
    assert (publishing.device.connects, publishing.device.sessions_lost) == (2, 0)


def test_a_forgotten_session_is_counted(door: socket.socket) -> None:
    publishing = Publishing(door, Message("a", b"", 1))
    publishing.accept(CONNACK_NEW).close()
    with publishing.accept(CONNACK_NEW) as second:
        assert seen(second, 1) == [(QOS_1 | DUP, 1)]
        second.sendall(answer(PUBACK, 1))
        assert publishing.done() == [True]
    assert publishing.device.sessions_lost == 1


def test_what_is_refused_is_not_taken_and_not_sent_again(door: socket.socket) -> None:
    publishing = Publishing(door, Message("a", b"", 1), Message("a", b"", 2), Message("a", b"", 0))
    with publishing.accept(CONNACK_NEW) as first:
        first.sendall(answer(PUBACK, 1, 0x97) + answer(PUBREC, 2, 0x97))
        assert publishing.done() == [False, False, True]
