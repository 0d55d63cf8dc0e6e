"""The reason codes against a table that others wrote (paho's), and what 3.1.1 is told of them."""

from __future__ import annotations

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from bridgehead.wire.packettype import PacketType
from bridgehead.wire.reason import CONNACK_REASONS_V4, REASONS_IN, Reason, connack_code_v4

PAHO = ReasonCode(PacketTypes.CONNACK, "Success").names


def test_the_codes_are_those_paho_knows() -> None:
    assert {int(reason) for reason in Reason} == set(PAHO)


@pytest.mark.parametrize("packet", REASONS_IN)
def test_each_packet_may_carry_the_codes_paho_allows_it(packet: PacketType) -> None:
    theirs = {code for code, names in PAHO.items() for packets in names.values() if packet in packets}
    if packet is PacketType.CONNACK:
        theirs.add(0x99)  # the will's payload does not match its format: section 3.2.2.2 has it, section 2.4 does not
    assert set(REASONS_IN[packet]) == theirs


def test_failures_start_at_0x80() -> None:
    assert not Reason.RE_AUTHENTICATE.failed
    assert Reason.UNSPECIFIED_ERROR.failed


@pytest.mark.parametrize(("code", "reason"), list(enumerate(CONNACK_REASONS_V4)))
def test_a_return_code_of_3_1_1_is_kept_both_ways(code: int, reason: Reason) -> None:
    assert connack_code_v4(reason) == code


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.BANNED, 5),
        (Reason.BAD_AUTHENTICATION_METHOD, 5),
        (Reason.SERVER_BUSY, 3),
        (Reason.QUOTA_EXCEEDED, 3),
        (Reason.USE_ANOTHER_SERVER, 3),
        (Reason.UNSPECIFIED_ERROR, 3),
    ],
)
def test_what_3_1_1_has_no_word_for_gets_the_nearest(reason: Reason, code: int) -> None:
    assert connack_code_v4(reason) == code


@pytest.mark.parametrize("reason", sorted(REASONS_IN[PacketType.CONNACK].values()))
def test_a_failure_is_never_told_as_success(reason: Reason) -> None:
    assert (connack_code_v4(reason) == 0) == (reason is Reason.SUCCESS)
