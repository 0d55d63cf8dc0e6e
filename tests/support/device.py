"""A device that keeps its session: whatever becomes of its broker, it comes back and sends again what is unanswered.

By the book, which no client library is in all of this: unacknowledged PUBLISH packets with DUP, with the same ids and in the
order of their first time, PUBREL where PUBREC had come, and nothing new before all of that.
"""

from __future__ import annotations

import itertools
import socket
import time
import uuid
from collections.abc import Iterable

from support.client import Message
from support.packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, kind_of
from support.raw import connect_packet, packet, read_packet, text
from support.waiting import PATIENCE

LEVELS = {"3.1.1": 4, "5": 5}
SILENCE = 3.0
"""Seconds without an answer that is due, after which the device builds its connection anew: an answer may have vanished."""
PAUSE = 0.05
REFUSED = 0x80
DUP = 0x08


class Device:
    """One publisher, used from one thread."""

    def __init__(self, port: int, version: str = "5") -> None:
        self.connects = 0
        self.sessions_lost = 0  # times that the broker had forgotten the session of an earlier connection
        self.refused = 0  # messages that the broker did not want; they are not sent again
        self._port, self._level = port, LEVELS[version]
        self._name = f"device-{uuid.uuid4().hex[:12]}"
        self._ids = itertools.cycle(range(1, 65_536))
        self._open: dict[int, bytes] = {}  # by packet id, in order: the PUBLISH, or the PUBREL that has taken its place
        self._socket: socket.socket | None = None

    def publish_all(self, messages: Iterable[Message]) -> list[bool]:
        """Publish in order and wait for every answer: which of them the broker has taken. QoS 0 is taken when it was sent."""
        deadline = time.monotonic() + PATIENCE
        messages = list(messages)
        ids = [next(self._ids) if message.qos else 0 for message in messages]
        frames = [self._frame(message, number) for message, number in zip(messages, ids, strict=True)]
        self._refusals: set[int] = set()
        connection = self._connection(deadline)
        self._open = {number: frame for number, frame in zip(ids, frames, strict=True) if number}
        try:
            connection.sendall(b"".join(frames))
        except OSError:
            self.close()
        while self._open:
            self._take_an_answer(deadline)
        return [number not in self._refusals for number in ids]

    def close(self) -> None:
        """The end of a connection, without a word; the session lives on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _frame(self, message: Message, number: int) -> bytes:
        head = text(message.topic) + (number.to_bytes(2, "big") if number else b"") + (b"\0" if self._level == 5 else b"")
        return packet(PUBLISH << 4 | message.qos << 1, head + message.payload)

    def _take_an_answer(self, deadline: float) -> None:
        connection = self._connection(deadline)
        try:
            first_byte, body = read_packet(connection)
            kind, number = first_byte >> 4, int.from_bytes(body[:2], "big")
            refused = len(body) > 2 and body[2] >= REFUSED
            if kind == PUBREC and not refused and number in self._open:
                self._open[number] = packet(PUBREL << 4 | 2, body[:2])
                connection.sendall(self._open[number])
            elif kind in (PUBACK, PUBREC, PUBCOMP) and self._open.pop(number, None) is not None and kind != PUBCOMP and refused:
                self._refusals.add(number)
                self.refused += 1
        except (OSError, EOFError):  # cut, reset, or silent for too long
            self.close()

    def _connection(self, deadline: float) -> socket.socket:
        """The connection, built anew if need be, with everything unanswered sent again."""
        while self._socket is None:
            assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {self._name} is connected and answered"
            try:
                self._connect()
            except (OSError, EOFError):
                self.close()
                time.sleep(PAUSE)
        return self._socket

    def _connect(self) -> None:
        self._socket = connection = socket.create_connection(("127.0.0.1", self._port), timeout=SILENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(connect_packet(self._level, self._name, clean=False, keep_alive=0))
        first_byte, body = read_packet(connection)
        assert (first_byte >> 4, body[1]) == (CONNACK, 0), body
        self.sessions_lost += self.connects > 0 and not body[0] & 1
        self.connects += 1
        connection.sendall(b"".join(map(_again, self._open.values())))


def _again(frame: bytes) -> bytes:
    return bytes([frame[0] | DUP]) + frame[1:] if kind_of(frame) == PUBLISH else frame
