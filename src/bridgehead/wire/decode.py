"""Bytes to packets. ``frame`` finds where a packet ends, ``decode`` reads its body; CONNECT has its own file.

Every rule of the standard that one packet can break is checked here, and broken rules leave as ``ProtocolError`` with
the reason code of MQTT 5. MALFORMED_PACKET: the bytes cannot be read as this packet. PROTOCOL_ERROR: they can, but say
what the standard forbids.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode_connect import decode_connect
from bridgehead.wire.fields import Reader, malformed, protocol_error, text
from bridgehead.wire.packets import (
    Acknowledgement,
    Auth,
    Connack,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import Properties, decode_properties
from bridgehead.wire.reason import CONNACK_REASONS_V4, REASONS_IN, SUBACK_REASONS_V4, Reason
from bridgehead.wire.topicnames import share_of, valid_filter

_DUP = 0x08
_FLAGS_OF_REQUESTS = 0x02
"""PUBREL, SUBSCRIBE and UNSUBSCRIBE carry the QoS 1 bit of MQTT 3.1, frozen as a constant [MQTT-3.6.1-1]."""


def frame(
    buffer: bytes | bytearray | memoryview, limit: int, *, start: int = 0, version: int = 4
) -> tuple[int, int, int] | None:
    """Read the fixed header at ``start``: (first byte, header length, remaining length), or None if bytes are missing.

    ``limit`` is the largest packet allowed, header included; a larger one is refused from its header alone. From a
    version 5 peer a length written with more bytes than it needs is refused too [MQTT-1.5.5-1]; 3.1.1 has no such
    rule, and small devices that stream a packet rely on it.
    """
    available = len(buffer) - start
    if available <= 0:
        return None
    first_byte = buffer[start]
    if first_byte < 0x10:
        raise malformed("packet type 0 is reserved")
    remaining = 0
    for index in range(4):
        if available < index + 2:
            return None
        byte = buffer[start + 1 + index]
        remaining |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if version >= 5 and byte == 0 and index:
                raise malformed("the remaining length takes more bytes than it needs [MQTT-1.5.5-1]")
            if index + 2 + remaining > limit:
                raise ProtocolError(
                    Reason.PACKET_TOO_LARGE, f"a packet of {index + 2 + remaining} bytes, at most {limit} are allowed"
                )
            return first_byte, index + 2, remaining
    raise malformed("the remaining length has more than four bytes")


def decode(first_byte: int, body: bytes | memoryview, version: int) -> Packet:
    """The packet that a fixed header with ``first_byte`` and exactly ``body`` behind it make.

    ``version`` is the protocol level agreed in CONNECT; for CONNECT itself it is ignored.
    """
    return _DECODERS[first_byte >> 4](first_byte & 0x0F, body, version)


def _connect(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.CONNECT)
    return decode_connect(body)


def _connack(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.CONNACK)
    reader = Reader(body)
    acknowledge = reader.u8("acknowledge flags")
    if acknowledge > 1:
        raise malformed("reserved bits of the acknowledge flags are set [MQTT-3.2.2-1]")
    code = reader.u8("connect reason code")
    properties: Properties = {}
    if version >= 5:
        reason = _reason(code, PacketType.CONNACK)
        properties = decode_properties(reader, PacketType.CONNACK)
    elif code < len(CONNACK_REASONS_V4):
        reason = CONNACK_REASONS_V4[code]
    else:
        raise malformed(f"{code} is no return code of CONNACK")
    reader.done("CONNACK")
    if acknowledge and reason:
        raise protocol_error("a refused connection has no session present [MQTT-3.2.2-6]")
    return Connack(acknowledge == 1, reason, properties)


def _publish(flags: int, body: bytes | memoryview, version: int) -> Packet:
    # The one packet that comes by the thousand: read without a Reader where that is as short.
    qos = flags >> 1 & 0x03
    if qos == 3:
        raise malformed("QoS 3 does not exist [MQTT-3.3.1-4]")
    if flags & _DUP and not qos:
        raise protocol_error("DUP is set on a message of QoS 0 [MQTT-3.3.1-2]")
    end = len(body)
    if end < 2:
        raise malformed("topic name is cut short")
    pos = 2 + (body[0] << 8 | body[1])
    if pos > end:
        raise malformed("topic name is cut short")
    topic = text(body[2:pos], "topic name")
    if "#" in topic or "+" in topic:
        raise ProtocolError(Reason.TOPIC_NAME_INVALID, "a topic name has no wildcards [MQTT-3.3.2-2]")
    packet_id = 0
    if qos:
        if pos + 2 > end:
            raise malformed("packet identifier is cut short")
        packet_id = body[pos] << 8 | body[pos + 1]
        if not packet_id:
            raise protocol_error("packet identifier 0 [MQTT-2.2.1-3]")
        pos += 2
    properties: Properties = {}
    if version >= 5:
        if pos < end and not body[pos]:  # no properties, as most messages
            pos += 1
        else:
            reader = Reader(body, pos)
            properties = decode_properties(reader, PacketType.PUBLISH)
            pos = reader.pos
        if not topic and "topic_alias" not in properties:
            raise protocol_error("an empty topic name without a topic alias")
    elif not topic:
        raise protocol_error("an empty topic name [MQTT-4.7.3-1]")
    return Publish(topic, bytes(body[pos:]), qos, flags & 1 == 1, flags & _DUP != 0, packet_id, properties)


def _acknowledgement(
    packet: type[Acknowledgement], flags_due: int
) -> Callable[[int, bytes | memoryview, int], Packet]:
    """The decoder of one of the four packets that are an identifier and, in MQTT 5, perhaps a reason and properties."""
    kind = packet.type

    def read(flags: int, body: bytes | memoryview, version: int) -> Packet:
        _expect_flags(flags, flags_due, kind, version)
        reader = Reader(body)
        packet_id = _packet_id(reader)
        if version < 5 or reader.pos == reader.end:
            reader.done(kind.name)
            return packet(packet_id)
        reason = _reason(reader.u8("reason code"), kind)
        if reader.pos == reader.end:
            return packet(packet_id, reason)
        properties = decode_properties(reader, kind)
        reader.done(kind.name)
        return packet(packet_id, reason, properties)

    return read


def _subscribe(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, _FLAGS_OF_REQUESTS, PacketType.SUBSCRIBE, version)
    reader = Reader(body)
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, PacketType.SUBSCRIBE) if version >= 5 else {}
    if reader.pos == reader.end:
        raise protocol_error("SUBSCRIBE without a topic filter [MQTT-3.8.3-2]")
    subscriptions: list[Subscription] = []
    while reader.pos < reader.end:
        topic_filter = _topic_filter(reader)
        options = reader.u8("subscription options")
        subscriptions.append(_subscription(topic_filter, options, version))
    return Subscribe(packet_id, subscriptions, properties)


def _subscription(topic_filter: str, options: int, version: int) -> Subscription:
    qos = options & 0x03
    if version < 5:
        if options > 2:
            raise malformed("subscription options other than QoS 0, 1 or 2 [MQTT-3-8.3-4]")
        return Subscription(topic_filter, qos)
    if options & 0xC0:
        raise malformed("reserved bits of the subscription options are set [MQTT-3.8.3-5]")
    if qos == 3:
        raise protocol_error("a subscription with QoS 3")
    retain_handling = options >> 4
    if retain_handling == 3:
        raise protocol_error("retain handling 3 does not exist")
    no_local = options & 0x04 != 0
    if no_local and share_of(topic_filter)[0] is not None:
        raise protocol_error("no local on a shared subscription [MQTT-3.8.3-4]")
    return Subscription(topic_filter, qos, no_local, options & 0x08 != 0, retain_handling)


def _suback(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.SUBACK)
    reader = Reader(body)
    packet_id = _packet_id(reader)
    properties: Properties = {}
    allowed = SUBACK_REASONS_V4
    if version >= 5:
        properties = decode_properties(reader, PacketType.SUBACK)
        allowed = REASONS_IN[PacketType.SUBACK]
    return Suback(packet_id, _reasons(body[reader.pos :], allowed, PacketType.SUBACK), properties)


def _unsubscribe(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, _FLAGS_OF_REQUESTS, PacketType.UNSUBSCRIBE, version)
    reader = Reader(body)
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, PacketType.UNSUBSCRIBE) if version >= 5 else {}
    if reader.pos == reader.end:
        raise protocol_error("UNSUBSCRIBE without a topic filter [MQTT-3.10.3-2]")
    filters: list[str] = []
    while reader.pos < reader.end:
        filters.append(_topic_filter(reader))
    return Unsubscribe(packet_id, filters, properties)


def _unsuback(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.UNSUBACK)
    reader = Reader(body)
    packet_id = _packet_id(reader)
    if version < 5:
        reader.done("UNSUBACK")
        return Unsuback(packet_id)
    properties = decode_properties(reader, PacketType.UNSUBACK)
    reasons = _reasons(body[reader.pos :], REASONS_IN[PacketType.UNSUBACK], PacketType.UNSUBACK)
    return Unsuback(packet_id, reasons, properties)


def _pingreq(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.PINGREQ)
    Reader(body).done("PINGREQ")
    return Pingreq()


def _pingresp(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.PINGRESP)
    Reader(body).done("PINGRESP")
    return Pingresp()


def _disconnect(flags: int, body: bytes | memoryview, version: int) -> Packet:
    _expect_flags(flags, 0, PacketType.DISCONNECT)
    reader = Reader(body)
    if version < 5 or not len(body):
        reader.done("DISCONNECT")
        return Disconnect()
    reason = _reason(reader.u8("disconnect reason code"), PacketType.DISCONNECT)
    if reader.pos == reader.end:
        return Disconnect(reason)
    properties = decode_properties(reader, PacketType.DISCONNECT)
    reader.done("DISCONNECT")
    return Disconnect(reason, properties)


def _auth(flags: int, body: bytes | memoryview, version: int) -> Packet:
    if version < 5:
        raise malformed("packet type 15 is reserved before MQTT 5")
    _expect_flags(flags, 0, PacketType.AUTH)
    if not len(body):  # section 3.15.2.1 allows this form of SUCCESS, though it leaves no room for the method
        return Auth()
    reader = Reader(body)
    reason = _reason(reader.u8("authenticate reason code"), PacketType.AUTH)
    properties = decode_properties(reader, PacketType.AUTH)
    reader.done("AUTH")
    if "authentication_method" not in properties:
        raise protocol_error("AUTH without an authentication method")
    return Auth(reason, properties)


def _reserved(flags: int, body: bytes | memoryview, version: int) -> Packet:
    raise malformed("packet type 0 is reserved")


def _expect_flags(flags: int, due: int, kind: PacketType, version: int = 4) -> None:
    if flags == due or (version == 3 and due == _FLAGS_OF_REQUESTS and flags == due | _DUP):
        return  # MQTT 3.1 repeats requests and marks them DUP
    raise malformed(f"reserved flags of {kind.name} are {flags:04b}, not {due:04b} [MQTT-2.1.3-1]")


def _packet_id(reader: Reader) -> int:
    packet_id = reader.u16("packet identifier")
    if not packet_id:
        raise protocol_error("packet identifier 0 [MQTT-2.2.1-3]")
    return packet_id


def _topic_filter(reader: Reader) -> str:
    topic_filter = reader.string("topic filter")
    if not valid_filter(topic_filter):
        raise ProtocolError(Reason.TOPIC_FILTER_INVALID, f"{topic_filter!r} is no topic filter")
    return topic_filter


def _reason(code: int, kind: PacketType) -> Reason:
    reason = REASONS_IN[kind].get(code)
    if reason is None:
        raise protocol_error(f"0x{code:02X} is no reason code of {kind.name}")
    return reason


def _reasons(codes: bytes | memoryview, allowed: dict[int, Reason], kind: PacketType) -> list[Reason]:
    if not len(codes):
        raise protocol_error(f"{kind.name} without a reason code")
    reasons: list[Reason] = []
    for code in codes:
        reason = allowed.get(code)
        if reason is None:
            raise protocol_error(f"0x{code:02X} is no reason code of {kind.name}")
        reasons.append(reason)
    return reasons


_DECODERS: tuple[Callable[[int, bytes | memoryview, int], Packet], ...] = (
    _reserved,
    _connect,
    _connack,
    _publish,
    _acknowledgement(Puback, 0),
    _acknowledgement(Pubrec, 0),
    _acknowledgement(Pubrel, _FLAGS_OF_REQUESTS),
    _acknowledgement(Pubcomp, 0),
    _subscribe,
    _suback,
    _unsubscribe,
    _unsuback,
    _pingreq,
    _pingresp,
    _disconnect,
    _auth,
)
