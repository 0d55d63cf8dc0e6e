"""What is allowed and perhaps not meant is told once."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.settings.advice import advice
from bridgehead.settings.load import from_document

PUSH: dict[str, Any] = {"localSubscriptions": [{"filters": ["a/#"]}, {"filters": ["b/#"]}]}
PULL: dict[str, Any] = {"remoteSubscriptions": [{"filters": ["c/#"], "maxQoS": 1}]}


def told(*bridges: dict[str, Any]) -> list[str]:
    document = {"bridges": [{"id": f"b{i}", "host": "example.com", **bridge} for i, bridge in enumerate(bridges)]}
    return list(advice(from_document(document)))


@pytest.mark.parametrize("rules", [PUSH, PULL, PUSH | PULL])
def test_a_bridge_that_lowers_the_qos_of_its_messages_is_told_once(rules: dict[str, Any]) -> None:
    [line] = told(rules, rules | {"persist": False})
    assert line.startswith("bridges[1].persist: bridge b1 lowers QoS 1 and 2 to QoS 0")


def test_a_bridge_that_keeps_the_qos_gives_no_reason_to_say_anything() -> None:
    assert told(PUSH, PUSH | {"persist": True}) == []


def test_where_every_rule_asks_for_qos_0_nothing_is_lowered() -> None:
    assert told({"persist": False, "localSubscriptions": [{"filters": ["a/#"], "maxQoS": 0}]}) == []


def test_a_hop_limit_that_3_1_1_cannot_keep_is_told() -> None:
    [line] = told(PUSH | {"mqttVersion": "3.1.1", "loopPreventionHopCount": 2}, PUSH | {"loopPreventionHopCount": 2})
    assert line.startswith("bridges[0].loopPreventionHopCount: MQTT 3.1.1 carries no hop count")
    assert told(PUSH | {"mqttVersion": "3.1.1"}) == []
    assert told(PUSH | {"mqttVersion": "3.1.1", "loopPreventionHopCount": 2, "loopPreventionEnabled": False}) == []


def test_filters_that_3_1_1_joins_are_told_with_what_is_subscribed_instead() -> None:
    rules: dict[str, Any] = {"remoteSubscriptions": [{"filters": ["a/1/+", "a/1/x", "b"]}, {"filters": ["a/+/x"]}]}
    [line, other] = told(rules | {"mqttVersion": "3.1.1"}, rules, rules | {"mqttVersion": "3.1.1", "joinFilters": False})
    assert line.startswith("bridges[0].remoteSubscriptions: a/1/+ and a/+/x overlap and are subscribed to as a/+/+")
    assert other.startswith("bridges[2].remoteSubscriptions: a/1/+ and a/+/x overlap: a remote of MQTT 3.1.1 that sends a copy")
    assert told(PULL | {"mqttVersion": "3.1.1"}) == []


def test_filters_that_only_everything_covers_stay_as_they_are_over_3_1_1_and_that_is_told() -> None:
    rules = [{"filters": ["sensors/#"]}, {"filters": ["+/status", "c", "x/1/+", "x/+/1"]}]
    [line, other] = told({"mqttVersion": "3.1.1", "remoteSubscriptions": rules}, {"remoteSubscriptions": rules})
    assert line.startswith("bridges[0].remoteSubscriptions: sensors/# and +/status overlap: a remote of MQTT 3.1.1 that sends")
    assert other.startswith("bridges[0].remoteSubscriptions: x/1/+ and x/+/1 overlap and are subscribed to as x/+/+")


def test_two_bridges_with_one_client_id_at_one_remote_are_told() -> None:
    one = {"clientId": "plant", **PUSH}
    [line] = told(one, one)
    assert line.startswith("bridges[1].clientId: bridge b0 has the same at the same remote")
    assert told(one, one | {"port": 1884}) == []
    assert told(PUSH, PUSH) == []


def test_cipher_suites_that_no_allowed_protocol_could_use_are_told() -> None:
    suites = {"cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]}
    [line] = told(
        PUSH | {"bridgeTls": suites | {"protocols": ["TLSv1.3"]}},
        PUSH | {"bridgeTls": suites | {"protocols": ["TLSv1.2", "TLSv1.3"]}},
        PUSH | {"bridgeTls": suites},
        PUSH | {"bridgeTls": {"protocols": ["TLSv1.3"]}},
    )
    assert line.startswith("bridges[0].bridgeTls.cipherSuites: all of TLS 1.2, which protocols does not allow")
