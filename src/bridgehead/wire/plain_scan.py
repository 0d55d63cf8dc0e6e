"""The scan of `kernels_scan` said slowly: the twin that the property tests hold it to.

Bytes slicing, a set and struct only, one packet at a time, no speed. Never used by the node.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from bridgehead.wire.kernels_scan import (
    ALIAS_INVALID,
    CONTROL,
    ERROR,
    ID_NOT_FOUND,
    MALFORMED,
    NEED_MORE,
    PROTOCOL_ERROR,
    TOO_LARGE,
    TOPIC_INVALID,
)


class FaultError(Exception):
    def __init__(self, reason: int) -> None:
        self.reason = reason
        super().__init__(hex(reason))


@dataclass
class PlainProperties:
    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class PlainPublish:
    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: PlainProperties


@dataclass
class PlainScan:
    consumed: int = 0
    stop: int = NEED_MORE
    reason: int = 0
    need: int = 0
    messages: list[PlainPublish] = field(default_factory=list)
    replies: bytes = b""
    acks: list[list[int]] = field(default_factory=list)
    published: int = 0
    released: int = 0
    changed: set[int] = field(default_factory=set)  # QoS 2 packet ids that were marked or released


class Reader:
    """Takes fields off the front of a packet's body; whatever runs over its end is malformed."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        if count > len(self.data):
            raise FaultError(MALFORMED)
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def varint(self) -> int:
        decoded = read_varint(self.data, minimal=True)
        if decoded is None:
            raise FaultError(MALFORMED)
        value, width = decoded
        self.take(width)
        return value

    def binary(self) -> bytes:
        return self.take(self.number(">H"))

    def text(self) -> str:
        try:
            text = self.binary().decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise FaultError(MALFORMED) from None
        if "\0" in text:
            raise FaultError(MALFORMED)
        return text


def read_varint(data: bytes, minimal: bool) -> tuple[int, int] | None:
    """Value and width of the variable byte integer at the front, None if it is not complete."""
    for width in range(1, 5):
        if width > len(data):
            return None
        if data[width - 1] < 0x80:
            if minimal and width > 1 and data[width - 1] == 0:
                raise FaultError(MALFORMED)
            return sum((data[i] & 0x7F) * 128**i for i in range(width)), width
    raise FaultError(MALFORMED)


def read_publish_properties(data: bytes, from_server: bool = True) -> PlainProperties:
    reader, found, seen = Reader(data), PlainProperties(), set[int]()
    while reader.data:
        name = reader.number("B")
        if name not in (0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26):
            raise FaultError(MALFORMED)
        if name in seen and name not in (0x0B, 0x26):
            raise FaultError(PROTOCOL_ERROR)
        seen.add(name)
        if name == 0x01:
            found.payload_format = reader.number("B")
            if found.payload_format > 1:
                raise FaultError(PROTOCOL_ERROR)
        elif name == 0x02:
            found.message_expiry = reader.number(">I")
        elif name == 0x03:
            found.content_type = reader.text()
        elif name == 0x08:
            found.response_topic = reader.text()
            if not found.response_topic or "+" in found.response_topic or "#" in found.response_topic:
                raise FaultError(PROTOCOL_ERROR)
        elif name == 0x09:
            found.correlation_data = reader.binary()
        elif name == 0x0B:
            if not from_server:
                raise FaultError(PROTOCOL_ERROR)
            if reader.varint() == 0:
                raise FaultError(PROTOCOL_ERROR)
        elif name == 0x23:
            reader.number(">H")
            raise FaultError(ALIAS_INVALID)
        else:
            found.user_properties.append((reader.text(), reader.text()))
    return found


def read_publish(flags: int, body: bytes, version: int, from_server: bool) -> PlainPublish:
    qos = (flags >> 1) & 3
    if qos == 3 or len(body) < 2:
        raise FaultError(MALFORMED)
    if qos == 0 and flags & 8:
        raise FaultError(PROTOCOL_ERROR)
    if len(body) < 2 + int.from_bytes(body[:2], "big") + (2 if qos else 0):
        raise FaultError(MALFORMED)
    reader = Reader(body)
    topic = reader.text()
    if "+" in topic or "#" in topic:
        raise FaultError(TOPIC_INVALID)
    packet_id = reader.number(">H") if qos else 0
    if qos and packet_id == 0:
        raise FaultError(PROTOCOL_ERROR)
    properties = PlainProperties()
    if version >= 5:
        properties = read_publish_properties(reader.take(reader.varint()), from_server)
    if not topic:
        raise FaultError(PROTOCOL_ERROR)
    return PlainPublish(topic, reader.data, qos, bool(flags & 1), bool(flags & 8), packet_id, properties)


def read_ack(kind: int, flags: int, body: bytes, version: int) -> tuple[int, int]:
    """Packet id and reason of a PUBACK, PUBREC, PUBREL or PUBCOMP."""
    if flags != (2 if kind == 6 else 0) or len(body) < 2 or (version < 5 and len(body) != 2):
        raise FaultError(MALFORMED)
    reader = Reader(body)
    packet_id = reader.number(">H")
    if packet_id == 0:
        raise FaultError(PROTOCOL_ERROR)
    reason = reader.number("B") if reader.data else 0
    if reader.data:
        if reader.varint() != len(reader.data):
            raise FaultError(MALFORMED)
        has_reason_string = False
        while reader.data:
            name = reader.number("B")
            if name == 0x1F:
                if has_reason_string:
                    raise FaultError(PROTOCOL_ERROR)
                has_reason_string = True
                reader.text()
            elif name == 0x26:
                reader.text()
                reader.text()
            else:
                raise FaultError(MALFORMED)
    return packet_id, reason


def scan(data: bytes, version: int, inbound: set[int], max_packet: int, from_server: bool) -> PlainScan:
    """Take the run at the front of `data`; `inbound` holds the QoS 2 packet ids received and not released."""
    run = PlainScan()
    while run.consumed < len(data):
        rest = data[run.consumed :]
        kind, flags = rest[0] >> 4, rest[0] & 15
        try:
            decoded = read_varint(rest[1:], minimal=version >= 5)
            if decoded is None:
                return run
            total = 1 + decoded[1] + decoded[0]
            if total > max_packet:
                raise FaultError(TOO_LARGE)
            if total > len(rest):
                run.need = total
                return run
            if kind not in (3, 4, 5, 6, 7):
                run.stop, run.need = CONTROL, total
                return run
            body = rest[1 + decoded[1] : total]
            if kind == 3:
                _take_publish(run, read_publish(flags, body, version, from_server), inbound)
            else:
                _take_ack(run, kind, *read_ack(kind, flags, body, version), version, inbound)
        except FaultError as fault:
            run.stop, run.reason = ERROR, fault.reason
            return run
        run.consumed += total
    return run


def _take_publish(run: PlainScan, message: PlainPublish, inbound: set[int]) -> None:
    run.published += 1
    if message.qos == 1:
        run.replies += struct.pack(">BBH", 0x40, 2, message.packet_id)
    if message.qos == 2:
        run.replies += struct.pack(">BBH", 0x50, 2, message.packet_id)
        if message.packet_id in inbound:
            return
        inbound.add(message.packet_id)
        run.changed.add(message.packet_id)
    run.messages.append(message)


def _take_ack(run: PlainScan, kind: int, packet_id: int, reason: int, version: int, inbound: set[int]) -> None:
    if kind != 6:
        run.acks.append([kind, packet_id, reason])
        return
    run.released += 1
    if packet_id in inbound or version < 5:
        run.replies += struct.pack(">BBH", 0x70, 2, packet_id)
    else:
        run.replies += struct.pack(">BBHB", 0x70, 3, packet_id, ID_NOT_FOUND)
    if packet_id in inbound:
        inbound.remove(packet_id)
        run.changed.add(packet_id)
