"""One class for each control packet. Plain values: ``decode`` has checked what comes from a peer, we answer for ours.

``properties`` is what MQTT 5 adds (see ``wire.properties``); to a 3.1.1 peer it is left out. The reason of an
acknowledgement is SUCCESS where the version cannot say one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import Properties
from bridgehead.wire.reason import Reason


@dataclass(slots=True)
class Will:
    """The message the server publishes when this client is gone without goodbye."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Connect:
    type: ClassVar[PacketType] = PacketType.CONNECT
    protocol_level: int = 5  # 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0
    client_id: str = ""
    clean_start: bool = True  # "clean session" in 3.1.1
    keep_alive: int = 0  # seconds; 0 switches it off
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = field(default_factory=dict)
    bridge_bit: bool = False  # not in the standard: mosquitto's bridges add 0x80 to the level to say what they are


@dataclass(slots=True)
class Connack:
    type: ClassVar[PacketType] = PacketType.CONNACK
    session_present: bool = False
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Publish:
    type: ClassVar[PacketType] = PacketType.PUBLISH
    topic: str  # empty only with a topic_alias property
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0  # 0 at QoS 0, which has none
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Puback:
    type: ClassVar[PacketType] = PacketType.PUBACK
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Pubrec:
    type: ClassVar[PacketType] = PacketType.PUBREC
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Pubrel:
    type: ClassVar[PacketType] = PacketType.PUBREL
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Pubcomp:
    type: ClassVar[PacketType] = PacketType.PUBCOMP
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Subscription:
    """One filter of a SUBSCRIBE with its options; 3.1.1 knows only the QoS."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0  # retained messages: 0 always, 1 only if the subscription is new, 2 never


@dataclass(slots=True)
class Subscribe:
    type: ClassVar[PacketType] = PacketType.SUBSCRIBE
    packet_id: int
    subscriptions: list[Subscription]
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Suback:
    type: ClassVar[PacketType] = PacketType.SUBACK
    packet_id: int
    reasons: list[Reason]  # one for each subscription, in its order
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Unsubscribe:
    type: ClassVar[PacketType] = PacketType.UNSUBSCRIBE
    packet_id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Unsuback:
    type: ClassVar[PacketType] = PacketType.UNSUBACK
    packet_id: int
    reasons: list[Reason] = field(default_factory=list)  # one for each filter, in its order; none in 3.1.1
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Pingreq:
    type: ClassVar[PacketType] = PacketType.PINGREQ


@dataclass(slots=True)
class Pingresp:
    type: ClassVar[PacketType] = PacketType.PINGRESP


@dataclass(slots=True)
class Disconnect:
    type: ClassVar[PacketType] = PacketType.DISCONNECT
    reason: Reason = Reason.NORMAL_DISCONNECTION
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Auth:
    type: ClassVar[PacketType] = PacketType.AUTH
    reason: Reason = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


Acknowledgement: TypeAlias = Puback | Pubrec | Pubrel | Pubcomp

Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Acknowledgement
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
