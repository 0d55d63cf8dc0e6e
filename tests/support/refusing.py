"""A remote broker that refuses as a test says: no broker on hand answers PUBLISH with "quota exceeded"."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

CONNECT, PUBLISH, PUBREL, PINGREQ = 1, 3, 6, 12


@dataclass(frozen=True, slots=True)
class Arrival:
    """A PUBLISH that came, when, and what it was told."""

    topic: str
    payload: bytes
    qos: int
    at: float
    reason: int


class RefusingRemote:
    """Speaks as much MQTT 5 as a bridge that only pushes needs. ``verdict`` gives the reason code for (topic, payload, how
    often that message has come before)."""

    def __init__(self, verdict: Callable[[str, bytes, int], int]) -> None:
        self._verdict = verdict
        self.arrivals: list[Arrival] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def taken(self, topic: str) -> list[bytes]:
        """The payloads of a topic that were accepted, in order."""
        return [one.payload for one in list(self.arrivals) if one.topic == topic and one.reason < 0x80]

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(ConnectionError), peer, peer.makefile("rb") as stream:
            while head := stream.read(1):
                length = shift = 0
                while (byte := stream.read(1)[0]) & 0x80:
                    length |= (byte & 0x7F) << shift
                    shift += 7
                body = stream.read(length | byte << shift)
                answer = self._answer(head[0], body)
                if answer:
                    peer.sendall(answer)

    def _answer(self, head: int, body: bytes) -> bytes:
        kind = head >> 4
        if kind == CONNECT:
            return bytes([0x20, 3, 0, 0, 0])
        if kind == PINGREQ:
            return bytes([0xD0, 0])
        if kind == PUBREL:
            return bytes([0x70, 2]) + body[:2]
        return self._publish(head >> 1 & 3, body) if kind == PUBLISH else b""

    def _publish(self, qos: int, body: bytes) -> bytes:
        end = 2 + int.from_bytes(body[:2], "big")
        topic, packet_id = body[2:end].decode(), body[end : end + 2] if qos else b""
        payload = body[end + len(packet_id) + 1 + body[end + len(packet_id)] :]  # behind properties shorter than 128 bytes
        before = sum(one.topic == topic and one.payload == payload for one in self.arrivals)
        reason = self._verdict(topic, payload, before) if qos else 0
        self.arrivals.append(Arrival(topic, payload, qos, time.monotonic(), reason))
        return bytes([0x40 if qos == 1 else 0x50, 3]) + packet_id + bytes([reason]) if qos else b""
