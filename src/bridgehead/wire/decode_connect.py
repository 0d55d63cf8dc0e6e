"""CONNECT: the packet that says which version the rest of the conversation speaks."""

from __future__ import annotations

from bridgehead.errors import ProtocolError
from bridgehead.wire.fields import Reader, malformed
from bridgehead.wire.packets import Connect, Will
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import Properties, decode_properties
from bridgehead.wire.reason import Reason
from bridgehead.wire.topicnames import valid_topic

PROTOCOL_NAMES = {3: "MQIsdp", 4: "MQTT", 5: "MQTT"}
BRIDGE_BIT = 0x80

_RESERVED = 0x01
_CLEAN_START = 0x02
_WILL = 0x04
_WILL_RETAIN = 0x20
_PASSWORD = 0x40
_USERNAME = 0x80


def decode_connect(body: bytes | memoryview) -> Connect:
    reader = Reader(body)
    level, bridge_bit = _protocol(reader)
    flags = _flags(reader, level)
    keep_alive = reader.u16("keep alive")
    properties = decode_properties(reader, PacketType.CONNECT) if level == 5 else {}
    client_id = reader.string("client identifier")
    clean_start = flags & _CLEAN_START != 0
    will = _will(reader, flags, level) if flags & _WILL else None
    username = reader.string("user name") if flags & _USERNAME else None
    password = reader.binary("password") if flags & _PASSWORD else None
    reader.done("CONNECT")
    if not client_id and (level == 3 or (level == 4 and not clean_start)):
        # The packet is well formed but the server could not find the session again [MQTT-3.1.3-8].
        raise ProtocolError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier for a session to be kept")
    return Connect(level, client_id, clean_start, keep_alive, username, password, will, properties, bridge_bit)


def refusal_version(body: bytes | memoryview) -> int | None:
    """In which version to answer a CONNECT that ``decode`` refused; None: the peer does not speak MQTT, so no answer.

    A level we do not know is answered in the nearest version we do: old ones understand return code 1 of 3.1.1.
    """
    reader = Reader(body)
    try:
        name = reader.string("protocol name")
        level = reader.u8("protocol level") & ~BRIDGE_BIT
    except ProtocolError:
        return None
    if name not in PROTOCOL_NAMES.values():
        return None
    return 5 if level >= 5 else 4


def _protocol(reader: Reader) -> tuple[int, bool]:
    name = reader.string("protocol name")
    announced = reader.u8("protocol level")
    level = announced & ~BRIDGE_BIT
    if PROTOCOL_NAMES.get(level) != name:
        raise ProtocolError(
            Reason.UNSUPPORTED_PROTOCOL_VERSION, f"protocol {name!r} level {level} [MQTT-3.1.2-1] [MQTT-3.1.2-2]"
        )
    return level, announced != level


def _flags(reader: Reader, level: int) -> int:
    flags = reader.u8("connect flags")
    if flags & _RESERVED:
        raise malformed("the reserved connect flag is set [MQTT-3.1.2-3]")
    if flags & _WILL:
        if _will_qos(flags) == 3:
            raise malformed("a will with QoS 3 [MQTT-3.1.2-12]")
    elif flags & _WILL_RETAIN or _will_qos(flags):
        raise malformed("will QoS or will retain without a will [MQTT-3.1.2-11] [MQTT-3.1.2-13]")
    if level < 5 and flags & _PASSWORD and not flags & _USERNAME:
        raise malformed("a password without a user name [MQTT-3.1.2-22]")
    return flags


def _will(reader: Reader, flags: int, level: int) -> Will:
    properties: Properties = decode_properties(reader, PacketType.WILL) if level == 5 else {}
    topic = reader.string("will topic")
    if not valid_topic(topic):
        raise ProtocolError(Reason.TOPIC_NAME_INVALID, f"will topic {topic!r} is no topic name")
    payload = reader.binary("will payload")
    return Will(topic, payload, _will_qos(flags), flags & _WILL_RETAIN != 0, properties)


def _will_qos(flags: int) -> int:
    return flags >> 3 & 0x03
