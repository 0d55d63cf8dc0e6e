"""The 27 MQTT 5 properties: one table says what each is and where it may stand; reading and writing follow the table.

In memory the properties of a packet are a plain dict from the names below to values:

    u16, u32, varint, bit   int
    flag                    bool
    string, binary          str, bytes
    pair (user_property)    list[tuple[str, str]], in the order of the wire [MQTT-3.3.2-18]

``subscription_identifier`` is a list[int] in PUBLISH, where each matching subscription adds its own, and an int in
SUBSCRIBE. A property that is absent has no key: its default belongs to whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridgehead.errors import ProtocolError
from bridgehead.wire.fields import (
    Reader,
    malformed,
    protocol_error,
    write_binary,
    write_string,
    write_u8,
    write_u16,
    write_u32,
    write_varint,
)
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.topicnames import valid_topic

Properties: TypeAlias = dict[str, Any]

BRIDGES_CROSSED = "hmq-bridge-hop-count"
"""The user property in which bridges count how many of them a message has crossed."""

_T = PacketType
_MESSAGE = (_T.PUBLISH, _T.WILL)
_HANDSHAKE = (_T.CONNECT, _T.CONNACK)
_ANSWERS = (
    _T.CONNACK, _T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP, _T.SUBACK, _T.UNSUBACK, _T.DISCONNECT, _T.AUTH,
)  # fmt: skip
_ALL = (*_ANSWERS, *_MESSAGE, _T.CONNECT, _T.SUBSCRIBE, _T.UNSUBSCRIBE)


@dataclass(frozen=True, slots=True)
class Property:
    identifier: int
    name: str
    type: str
    packets: tuple[PacketType, ...]
    repeats_in: tuple[PacketType, ...] = ()
    nonzero: bool = False
    """The standard calls the value 0 a protocol error."""


PROPERTIES: tuple[Property, ...] = (
    Property(0x01, "payload_format_indicator", "bit", _MESSAGE),
    Property(0x02, "message_expiry_interval", "u32", _MESSAGE),
    Property(0x03, "content_type", "string", _MESSAGE),
    Property(0x08, "response_topic", "string", _MESSAGE),
    Property(0x09, "correlation_data", "binary", _MESSAGE),
    Property(0x0B, "subscription_identifier", "varint", (_T.PUBLISH, _T.SUBSCRIBE), (_T.PUBLISH,), nonzero=True),
    Property(0x11, "session_expiry_interval", "u32", (*_HANDSHAKE, _T.DISCONNECT)),
    Property(0x12, "assigned_client_identifier", "string", (_T.CONNACK,)),
    Property(0x13, "server_keep_alive", "u16", (_T.CONNACK,)),
    Property(0x15, "authentication_method", "string", (*_HANDSHAKE, _T.AUTH)),
    Property(0x16, "authentication_data", "binary", (*_HANDSHAKE, _T.AUTH)),
    Property(0x17, "request_problem_information", "flag", (_T.CONNECT,)),
    Property(0x18, "will_delay_interval", "u32", (_T.WILL,)),
    Property(0x19, "request_response_information", "flag", (_T.CONNECT,)),
    Property(0x1A, "response_information", "string", (_T.CONNACK,)),
    Property(0x1C, "server_reference", "string", (_T.CONNACK, _T.DISCONNECT)),
    Property(0x1F, "reason_string", "string", _ANSWERS),
    Property(0x21, "receive_maximum", "u16", _HANDSHAKE, nonzero=True),
    Property(0x22, "topic_alias_maximum", "u16", _HANDSHAKE),
    Property(0x23, "topic_alias", "u16", (_T.PUBLISH,), nonzero=True),
    Property(0x24, "maximum_qos", "bit", (_T.CONNACK,)),
    Property(0x25, "retain_available", "flag", (_T.CONNACK,)),
    Property(0x26, "user_property", "pair", _ALL, _ALL),
    Property(0x27, "maximum_packet_size", "u32", _HANDSHAKE, nonzero=True),
    Property(0x28, "wildcard_subscription_available", "flag", (_T.CONNACK,)),
    Property(0x29, "subscription_identifier_available", "flag", (_T.CONNACK,)),
    Property(0x2A, "shared_subscription_available", "flag", (_T.CONNACK,)),
)

BY_IDENTIFIER: dict[int, Property] = {prop.identifier: prop for prop in PROPERTIES}
BY_NAME: dict[str, Property] = {prop.name: prop for prop in PROPERTIES}


def decode_properties(reader: Reader, packet: PacketType) -> Properties:
    """Read one property section, its length first."""
    size = reader.varint("property length")
    if not size:
        return {}
    outer_end = reader.end
    if reader.pos + size > outer_end:
        raise malformed("the property length goes beyond the packet")
    reader.end = reader.pos + size
    found: Properties = {}
    while reader.pos < reader.end:
        prop = _named_by(reader, packet)
        value = _READ[prop.type](reader, prop.name)
        if prop.nonzero and not value:
            raise protocol_error(f"{prop.name} may not be 0")
        if packet in prop.repeats_in:
            found.setdefault(prop.name, []).append(value)
        elif prop.name in found:
            raise protocol_error(f"{prop.name} stands twice in {packet.name}")
        else:
            found[prop.name] = value
    reader.end = outer_end
    _check_together(found, packet)
    return found


def encode_properties(properties: Properties, packet: PacketType) -> bytes:
    """Write one property section, its length first."""
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for name, value in properties.items():
        prop = BY_NAME.get(name)
        if prop is None or packet not in prop.packets:
            raise ValueError(f"{packet.name} has no property {name}")
        identifier = write_u8(prop.identifier)
        write = _WRITE[prop.type]
        for each in value if packet in prop.repeats_in else (value,):
            parts.append(identifier)
            parts.append(write(each))
    section = b"".join(parts)
    return write_varint(len(section)) + section


def _named_by(reader: Reader, packet: PacketType) -> Property:
    identifier = reader.varint("property identifier")
    prop = BY_IDENTIFIER.get(identifier)
    if prop is None:
        raise malformed(f"there is no property 0x{identifier:02X}")
    if packet not in prop.packets:
        # Section 2.2.2.2 says malformed here, though the packet can be read; a property twice is a protocol error.
        raise malformed(f"{prop.name} is not allowed in {packet.name}")
    return prop


def _check_together(found: Properties, packet: PacketType) -> None:
    if "authentication_data" in found and "authentication_method" not in found:
        raise _refused(packet, "authentication_data without authentication_method")
    topic = found.get("response_topic")
    if topic is not None and not valid_topic(topic):
        raise _refused(packet, "a response_topic that is no topic name [MQTT-3.3.2-14]")


def _refused(packet: PacketType, what: str) -> ProtocolError:
    return protocol_error(f"{packet.name} has {what}")


def _read_bit(reader: Reader, name: str) -> int:
    value = reader.u8(name)
    if value > 1:
        raise protocol_error(f"{name} is {value}, it may be 0 or 1")
    return value


def _read_flag(reader: Reader, name: str) -> bool:
    return _read_bit(reader, name) == 1


def _read_pair(reader: Reader, name: str) -> tuple[str, str]:
    return reader.string(name), reader.string(name)


def _write_pair(pair: tuple[str, str]) -> bytes:
    key, value = pair
    return write_string(key) + write_string(value)


_READ: dict[str, Callable[[Reader, str], Any]] = {
    "bit": _read_bit,
    "flag": _read_flag,
    "u16": Reader.u16,
    "u32": Reader.u32,
    "varint": Reader.varint,
    "string": Reader.string,
    "binary": Reader.binary,
    "pair": _read_pair,
}

_WRITE: dict[str, Callable[[Any], bytes]] = {
    "bit": write_u8,
    "flag": write_u8,
    "u16": write_u16,
    "u32": write_u32,
    "varint": write_varint,
    "string": write_string,
    "binary": write_binary,
    "pair": _write_pair,
}
