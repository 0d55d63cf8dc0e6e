"""Packets to bytes, in the shortest form the standard allows.

The packets are our own, so their rules are not checked again; only what cannot be written, or what the peer would read
as something else, is a ``ValueError``. For 3.1.1 the properties are left out and reason codes are mapped: that version
has no word for most of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.wire.decode_connect import BRIDGE_BIT, PROTOCOL_NAMES
from bridgehead.wire.fields import VARINT_MAX, write_binary, write_string, write_u8, write_u16, write_varint
from bridgehead.wire.packets import (
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import Properties, encode_properties
from bridgehead.wire.reason import connack_code_v4

_FLAGS_OF_REQUESTS = 0x02


def encode(packet: Packet, version: int) -> bytes:
    """The whole packet as bytes. A ``Connect`` is written in its own ``protocol_level``."""
    flags, body = _ENCODERS[packet.type](packet, version)
    if len(body) > VARINT_MAX:
        raise ValueError(f"{packet.type.name} of {len(body)} bytes, at most {VARINT_MAX} can be sent")
    return write_u8(packet.type << 4 | flags) + write_varint(len(body)) + body


def _connect(packet: Connect, _version: int) -> tuple[int, bytes]:
    level = packet.protocol_level
    name = PROTOCOL_NAMES.get(level)
    if name is None:
        raise ValueError(f"protocol level {level} is not spoken here")
    if level < 5 and packet.password is not None and packet.username is None:
        raise ValueError("before MQTT 5 a password needs a user name [MQTT-3.1.2-22]")
    flags = packet.clean_start << 1 | (packet.password is not None) << 6 | (packet.username is not None) << 7
    will = packet.will
    if will is not None:
        flags |= 0x04 | _checked_qos(will.qos) << 3 | will.retain << 5
    return 0, b"".join(
        (
            write_string(name),
            write_u8(level | (BRIDGE_BIT if packet.bridge_bit else 0)),
            write_u8(flags),
            write_u16(packet.keep_alive),
            _properties(packet.properties, PacketType.CONNECT, level),
            write_string(packet.client_id),
            b"" if will is None else _will(will, level),
            b"" if packet.username is None else write_string(packet.username),
            b"" if packet.password is None else write_binary(packet.password),
        )
    )


def _will(will: Will, level: int) -> bytes:
    return _properties(will.properties, PacketType.WILL, level) + write_string(will.topic) + write_binary(will.payload)


def _connack(packet: Connack, version: int) -> tuple[int, bytes]:
    code = packet.reason if version >= 5 else connack_code_v4(packet.reason)
    head = write_u8(packet.session_present) + write_u8(code)
    return 0, head + _properties(packet.properties, PacketType.CONNACK, version)


def _publish(packet: Publish, version: int) -> tuple[int, bytes]:
    qos = _checked_qos(packet.qos)
    return packet.dup << 3 | qos << 1 | packet.retain, b"".join(
        (
            write_string(packet.topic),
            _packet_id(packet.packet_id) if qos else b"",
            _properties(packet.properties, PacketType.PUBLISH, version),
            packet.payload,
        )
    )


def _acknowledgement(packet: Acknowledgement, version: int) -> tuple[int, bytes]:
    flags = _FLAGS_OF_REQUESTS if packet.type is PacketType.PUBREL else 0
    body = _packet_id(packet.packet_id)
    if version >= 5 and (packet.reason or packet.properties):
        body += write_u8(packet.reason)
        if packet.properties:
            body += encode_properties(packet.properties, packet.type)
    return flags, body


def _subscribe(packet: Subscribe, version: int) -> tuple[int, bytes]:
    if not packet.subscriptions:
        raise ValueError("SUBSCRIBE needs a topic filter [MQTT-3.8.3-2]")
    parts = [_packet_id(packet.packet_id), _properties(packet.properties, PacketType.SUBSCRIBE, version)]
    for subscription in packet.subscriptions:
        parts.append(write_string(subscription.filter))
        parts.append(write_u8(_options(subscription, version)))
    return _FLAGS_OF_REQUESTS, b"".join(parts)


def _options(subscription: Subscription, version: int) -> int:
    qos = _checked_qos(subscription.qos)
    if version < 5:
        return qos
    if not 0 <= subscription.retain_handling <= 2:
        raise ValueError(f"retain handling {subscription.retain_handling} does not exist")
    return (
        qos
        | subscription.no_local << 2
        | subscription.retain_as_published << 3
        | subscription.retain_handling << 4
    )


def _suback(packet: Suback, version: int) -> tuple[int, bytes]:
    # 3.1.1 knows one way to fail [MQTT-3.9.3-2].
    codes = bytes(packet.reasons if version >= 5 else (min(reason, 0x80) for reason in packet.reasons))
    return 0, _packet_id(packet.packet_id) + _properties(packet.properties, PacketType.SUBACK, version) + codes


def _unsubscribe(packet: Unsubscribe, version: int) -> tuple[int, bytes]:
    if not packet.filters:
        raise ValueError("UNSUBSCRIBE needs a topic filter [MQTT-3.10.3-2]")
    head = _packet_id(packet.packet_id) + _properties(packet.properties, PacketType.UNSUBSCRIBE, version)
    return _FLAGS_OF_REQUESTS, head + b"".join(map(write_string, packet.filters))


def _unsuback(packet: Unsuback, version: int) -> tuple[int, bytes]:
    body = _packet_id(packet.packet_id)
    if version >= 5:
        body += encode_properties(packet.properties, PacketType.UNSUBACK) + bytes(packet.reasons)
    return 0, body


def _ping(_packet: Packet, _version: int) -> tuple[int, bytes]:
    return 0, b""


def _disconnect(packet: Disconnect, version: int) -> tuple[int, bytes]:
    if version < 5 or not (packet.reason or packet.properties):
        return 0, b""
    body = write_u8(packet.reason)
    if packet.properties:
        body += encode_properties(packet.properties, PacketType.DISCONNECT)
    return 0, body


def _auth(packet: Auth, version: int) -> tuple[int, bytes]:
    if version < 5:
        raise ValueError("there is no AUTH before MQTT 5")
    if not (packet.reason or packet.properties):
        return 0, b""
    return 0, write_u8(packet.reason) + encode_properties(packet.properties, PacketType.AUTH)


def _properties(properties: Properties, packet: PacketType, version: int) -> bytes:
    return encode_properties(properties, packet) if version >= 5 else b""


def _packet_id(packet_id: int) -> bytes:
    if not packet_id:
        raise ValueError("packet identifier 0 [MQTT-2.2.1-3]")
    return write_u16(packet_id)


def _checked_qos(qos: int) -> int:
    if not 0 <= qos <= 2:
        raise ValueError(f"QoS {qos} does not exist")
    return qos


_ENCODERS: dict[PacketType, Callable[[Any, int], tuple[int, bytes]]] = {
    PacketType.CONNECT: _connect,
    PacketType.CONNACK: _connack,
    PacketType.PUBLISH: _publish,
    PacketType.PUBACK: _acknowledgement,
    PacketType.PUBREC: _acknowledgement,
    PacketType.PUBREL: _acknowledgement,
    PacketType.PUBCOMP: _acknowledgement,
    PacketType.SUBSCRIBE: _subscribe,
    PacketType.SUBACK: _suback,
    PacketType.UNSUBSCRIBE: _unsubscribe,
    PacketType.UNSUBACK: _unsuback,
    PacketType.PINGREQ: _ping,
    PacketType.PINGRESP: _ping,
    PacketType.DISCONNECT: _disconnect,
    PacketType.AUTH: _auth,
}
