"""The few MQTT control packets the tools need, as bytes, for 3.1.1 (level 4) and 5."""

import struct

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14

# CONNACK properties by their identifier: how many bytes the value takes (0: a string, -1: a pair of strings)
_CONNACK_PROPERTY_BYTES = {
    0x11: 4, 0x12: 0, 0x13: 2, 0x15: 0, 0x16: 0, 0x1A: 0, 0x1C: 0, 0x1F: 0, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1,
    0x26: -1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1,
}
_RECEIVE_MAXIMUM = 0x21


class Refused(Exception):
    """The other end said no, or something that is not MQTT."""


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends); at most four bytes."""
    value = shift = 0
    for place in range(at, at + 4):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            return value, place + 1
        shift += 7
    raise Refused("a variable byte integer of more than four bytes")


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + varint(len(body)) + body


def connect(client_id: str, level: int) -> bytes:
    """A clean session without keep alive: the generator may be silent between two runs."""
    properties = b"\0" if level == 5 else b""
    return packet(CONNECT << 4, text("MQTT") + bytes([level, 0x02]) + b"\0\0" + properties + text(client_id))


def level_of_connect(body: bytes) -> int:
    """The protocol level; the high bit is how a mosquitto bridge says that it is a bridge."""
    name_length = int(struct.unpack_from(">H", body)[0])
    return body[2 + name_length] & 0x7F


def connack(level: int) -> bytes:
    """Accepted, no session, no limits: an absent Receive Maximum means 65,535."""
    return packet(CONNACK << 4, b"\0\0" + (b"\0" if level == 5 else b""))


def receive_maximum_of_connack(body: bytes, level: int) -> int:
    if body[1] != 0:
        raise Refused(f"CONNACK with reason 0x{body[1]:02x}")
    if level != 5:
        return 65535
    length, at = read_varint(body, 2)
    end = at + length
    while at < end:
        identifier, at = body[at], at + 1
        if identifier == _RECEIVE_MAXIMUM:
            return int(struct.unpack_from(">H", body, at)[0])
        size = _CONNACK_PROPERTY_BYTES[identifier]
        strings = {0: 1, -1: 2}.get(size, 0)
        at += size if not strings else 0
        for _ in range(strings):
            at += 2 + struct.unpack_from(">H", body, at)[0]
    return 65535


def answer_subscription(kind: int, body: bytes, level: int) -> bytes:
    """SUBACK or UNSUBACK that grants every filter what it asked for."""
    at = 2
    if level == 5:
        length, at = read_varint(body, at)
        at += length
    codes = bytearray()
    while at < len(body):
        at += 2 + struct.unpack_from(">H", body, at)[0]
        if kind == SUBSCRIBE:
            codes.append(body[at] & 0x03)
            at += 1
        elif level == 5:
            codes.append(0)
    first = (SUBACK if kind == SUBSCRIBE else UNSUBACK) << 4
    return packet(first, body[:2] + (b"\0" if level == 5 else b"") + bytes(codes))


def publish_template(topic: str, qos: int, level: int, payload_bytes: int) -> tuple[bytes, int, int, int]:
    """One PUBLISH, and where in it the topic's last two characters, the packet id and the payload are."""
    head = text(topic)
    body = head + (b"\0\0" if qos else b"") + (b"\0" if level == 5 else b"") + bytes(payload_bytes)
    frame = packet(PUBLISH << 4 | qos << 1, body)
    start = len(frame) - len(body)
    return frame, start + len(head) - 2, start + len(head), len(frame) - payload_bytes
