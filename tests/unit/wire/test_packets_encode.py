"""What the encoder maps for 3.1.1, and what it cannot write."""

from __future__ import annotations

from typing import Any

import pytest

import bridgehead.wire.encode as encode_module
from bridgehead.wire import fields
from bridgehead.wire.decode_connect import refusal_version
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from bridgehead.wire.reason import Reason

NOTE: dict[str, Any] = {"reason_string": "why"}


@pytest.mark.parametrize(
    ("packet", "written"),
    [
        (Connack(False, Reason.BANNED, NOTE), "2002 00 05"),
        (Publish("a", b"x", properties={"content_type": "t"}), "3004 0001 61 78"),
        (Puback(1, Reason.QUOTA_EXCEEDED, NOTE), "4002 0001"),
        (Subscribe(1, [Subscription("a", 1, True, True, 2)], {"subscription_identifier": 1}), "8206 0001 0001 61 01"),
        (Suback(1, [Reason.GRANTED_QOS_2, Reason.NOT_AUTHORIZED], NOTE), "9004 0001 02 80"),
        (Unsuback(1, [Reason.NO_SUBSCRIPTION_EXISTED], NOTE), "B002 0001"),
        (Disconnect(Reason.SERVER_SHUTTING_DOWN, NOTE), "E000"),
    ],
)
def test_3_1_1_is_told_only_what_it_has_words_for(packet: Packet, written: str) -> None:
    assert encode(packet, 4) == bytes.fromhex(written)


@pytest.mark.parametrize(
    ("packet", "version"),
    [
        (Publish("a" * 65_536), 4),
        (Publish("a\0b"), 4),
        (Publish("\ud800"), 5),
        (Publish("a", qos=3, packet_id=1), 4),
        (Publish("a", qos=1), 4),
        (Publish("a", qos=1, packet_id=65_536), 4),
        (Publish("a", properties={"receive_maximum": 1}), 5),
        (Publish("a", properties={"colour": 1}), 5),
        (Publish("a", properties={"message_expiry_interval": -1}), 5),
        (Publish("a", properties={"subscription_identifier": [268_435_456]}), 5),
        (Puback(0), 5),
        (Connect(6, "a"), 5),
        (Connect(4, "a", password=b"x"), 4),
        (Connect(4, "a", keep_alive=65_536), 4),
        (Connect(4, "a", will=Will("a", qos=3)), 4),
        (Connect(4, "a", will=Will("a", bytes(65_536))), 4),
        (Subscribe(1, []), 5),
        (Subscribe(1, [Subscription("a", retain_handling=3)]), 5),
        (Unsubscribe(1, []), 4),
        (Auth(), 4),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_has_no_form_on_the_wire_is_a_value_error(packet: Packet, version: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode(packet, version)


def test_a_packet_beyond_the_largest_length_is_a_value_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fields.VARINT_MAX == 268_435_455
    monkeypatch.setattr(encode_module, "VARINT_MAX", 10)  # the real one would need a gigabyte here
    assert len(encode(Publish("a", bytes(7)), 4)) == 12
    with pytest.raises(ValueError, match="at most 10"):
        encode(Publish("a", bytes(8)), 4)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("0004 4D515454 04 FF", 4),
        ("0004 4D515454 05 FF", 5),
        ("0004 4D515454 85", 5),
        ("0004 4D515454 06", 5),
        ("0004 4D515454 02", 4),
        ("0006 4D5149736470 03", 4),
        ("0004 48545450 05", None),
        ("4745 54", None),
        ("0004 4D515454", None),
        ("", None),
    ],
)
def test_a_refused_connect_is_answered_in_its_own_version(body: str, version: int | None) -> None:
    assert refusal_version(bytes.fromhex(body)) == version
