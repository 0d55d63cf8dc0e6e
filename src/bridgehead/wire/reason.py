"""Reason codes: the values in which MQTT 5 says how a request ended, and what 3.1.1 can say of them."""

from __future__ import annotations

from enum import IntEnum

from bridgehead.wire.packettype import PacketType


class Reason(IntEnum):
    """Every MQTT 5 reason code (section 2.4). 0x80 and above are failures."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def failed(self) -> bool:
        return self >= 0x80


def _codes(*codes: int) -> dict[int, Reason]:
    return {code: Reason(code) for code in codes}


# The two acknowledgements that may carry a failure of the message, and the two of the second QoS 2 half.
_RECEIVED = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
_RELEASED = _codes(0x00, 0x92)

REASONS_IN: dict[PacketType, dict[int, Reason]] = {
    PacketType.CONNACK: _codes(0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F),
    PacketType.PUBACK: _RECEIVED,
    PacketType.PUBREC: _RECEIVED,
    PacketType.PUBREL: _RELEASED,
    PacketType.PUBCOMP: _RELEASED,
    PacketType.SUBACK: _codes(0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2),
    PacketType.UNSUBACK: _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),
    # 0x8C is missing in the table of section 3.14 but given to DISCONNECT by the table of section 2.4.
    PacketType.DISCONNECT: _codes(
        0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3)
    ),
    PacketType.AUTH: _codes(0x00, 0x18, 0x19),
}
"""Which reason codes each MQTT 5 packet may carry, as byte -> Reason."""

SUBACK_REASONS_V4: dict[int, Reason] = _codes(0x00, 0x01, 0x02, 0x80)
"""All that a 3.1.1 SUBACK can say [MQTT-3.9.3-2]."""

CONNACK_REASONS_V4: tuple[Reason, ...] = (
    Reason.SUCCESS,
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.SERVER_UNAVAILABLE,
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
)
"""The 3.1.1 CONNACK return codes 0 to 5, each as the reason code of the same meaning."""

_RETURN_CODE = {reason: code for code, reason in enumerate(CONNACK_REASONS_V4)} | {
    Reason.BANNED: 5,
    Reason.BAD_AUTHENTICATION_METHOD: 5,
}
_SERVER_UNAVAILABLE = 3


def connack_code_v4(reason: int) -> int:
    """The 3.1.1 CONNACK return code for ``reason``; what 3.1.1 has no word for is "server unavailable"."""
    return _RETURN_CODE.get(Reason(reason), _SERVER_UNAVAILABLE)
