"""The fifteen control packet types, by the number in the upper half of a packet's first byte."""

from __future__ import annotations

from enum import IntEnum


class PacketType(IntEnum):
    WILL = 0
    """Not a packet: number 0 is reserved on the wire. The will inside CONNECT has properties of its own, so in tables
    of what is allowed where it stands as if it were one."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15
