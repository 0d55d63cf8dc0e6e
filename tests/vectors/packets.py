"""The table of packet cases, for the tests of the codec, of the session and of the broker.

    VALID           packets and the objects they stand for
    REFUSED         packets that ``decode`` must refuse, each with the reason code that is due
    HEADER_REFUSED  packets whose fixed header ``frame`` must refuse
    CASES           all of them

Every packet is whole. Cases of version 3 are those where MQTT 3.1 differs from 3.1.1.
"""

from __future__ import annotations

from vectors.case import Case
from vectors.connect import CONNACK_REFUSED, CONNACK_VALID, CONNECT_REFUSED, CONNECT_VALID
from vectors.control import CONTROL_REFUSED, CONTROL_VALID, HEADER_REFUSED
from vectors.publish import ACK_REFUSED, ACK_VALID, PUBLISH_REFUSED, PUBLISH_VALID
from vectors.subscribe import (
    SUBACK_REFUSED,
    SUBACK_VALID,
    SUBSCRIBE_REFUSED,
    SUBSCRIBE_VALID,
    UNSUBSCRIBE_REFUSED,
    UNSUBSCRIBE_VALID,
)

__all__ = ["CASES", "HEADER_REFUSED", "REFUSED", "VALID", "Case"]

VALID: list[Case] = [
    *CONNECT_VALID,
    *CONNACK_VALID,
    *PUBLISH_VALID,
    *ACK_VALID,
    *SUBSCRIBE_VALID,
    *SUBACK_VALID,
    *UNSUBSCRIBE_VALID,
    *CONTROL_VALID,
]

REFUSED: list[Case] = [
    *CONNECT_REFUSED,
    *CONNACK_REFUSED,
    *PUBLISH_REFUSED,
    *ACK_REFUSED,
    *SUBSCRIBE_REFUSED,
    *SUBACK_REFUSED,
    *UNSUBSCRIBE_REFUSED,
    *CONTROL_REFUSED,
]

CASES: list[Case] = [*VALID, *REFUSED, *HEADER_REFUSED]
