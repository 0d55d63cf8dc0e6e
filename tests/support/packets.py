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


def _end_of_packet(data: bytes, start: int) -> int | None:
    length = shift = 0
    for at in range(start + 1, min(start + 5, len(data))):
        length |= (data[at] & 127) << shift
        shift += 7
        if data[at] < 128:
            end = at + 1 + length
            return end if end <= len(data) else None
    return None
