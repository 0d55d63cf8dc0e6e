"""A stream of bytes as whole MQTT packets: as much of the format as a proxy needs to know one packet from another."""

from __future__ import annotations

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14


class Packets:
    """Feed it bytes as they come; it gives back whole packets and keeps the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        data, start = self._rest + data, 0
        found = []
        while (end := _end_of_packet(data, start)) is not None:
            found.append(data[start:end])
            start = end
        self._rest = data[start:]
        return found


def kind_of(packet: bytes) -> int:
    return packet[0] >> 4


def is_resent(packet: bytes) -> bool:
    """A PUBLISH with DUP."""
    return kind_of(packet) == PUBLISH and bool(packet[0] & 8)


class Releases:
    """What one sender says of its QoS 2 messages. One that it sends once more behind its PUBREL breaks the protocol, and
    nobody can tell it from a new one. ``broken`` has these, as they are behind their packet ids."""

    def __init__(self) -> None:
        self.broken: list[bytes] = []
        self._sent: dict[bytes, bytes] = {}  # by packet id: what was sent with it last
        self._released: set[bytes] = set()

    def saw(self, packet: bytes) -> None:
        if kind_of(packet) == PUBREL:
            self._released.add(packet[2:4])
        elif kind_of(packet) == PUBLISH and packet[0] & 6 == 4:
            packet_id, body = _id_and_body(packet)
            if packet_id in self._released and self._sent.get(packet_id) == body:
                self.broken.append(body)
            self._released.discard(packet_id)
            self._sent[packet_id] = body


def payload_of(body: bytes, version: object) -> bytes:
    """Of what is behind the packet id of a PUBLISH with few properties."""
    return body[1 + body[0] :] if version == 5 else body


def _id_and_body(packet: bytes) -> tuple[bytes, bytes]:
    """Of a PUBLISH: its packet id, and everything behind it."""
    topic = next(at for at in range(1, 5) if packet[at] < 128) + 1
    end = topic + 2 + int.from_bytes(packet[topic : topic + 2], "big")
    return packet[end : end + 2], packet[end + 2 :]


def _end_of_packet(data: bytes, start: int) -> int | None:
    length = shift = 0
    for at in range(start + 1, min(start + 5, len(data))):
        length |= (data[at] & 127) << shift
        shift += 7
        if data[at] < 128:
            end = at + 1 + length
            return end if end <= len(data) else None
    return None
