"""A HiveMQ Edge's configuration becomes ours: what maps, what differs, and nothing left out in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.commands.importing.hivemq import import_hivemq
from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.xmltree import Element, parse_xml
from bridgehead.errors import CommandError

DATA = Path(__file__).parents[3] / "data"
EVERY = DATA / "hivemq-every-option.xml"


def imported(text: str | bytes) -> tuple[dict[str, Any], Report]:
    report = Report()
    raw = text if isinstance(text, bytes) else text.encode()
    return import_hivemq(raw, "config.xml", report), report


@pytest.fixture(scope="module")
def every() -> tuple[dict[str, Any], Report]:
    return imported(EVERY.read_bytes())


def bridge(inside: str = "", remote: str = "", around: str = "") -> tuple[dict[str, Any], Report]:
    text = f"<hivemq>{around}<mqtt-bridges><mqtt-bridge><id>b</id><remote-broker><host>h</host>{remote}</remote-broker>"
    document, report = imported(f"{text}{inside}</mqtt-bridge></mqtt-bridges></hivemq>")
    return document["bridges"][0], report


def forwarded(*filters: str, more: str = "", around: str = "") -> tuple[dict[str, Any], Report]:
    inside = "".join(f"<mqtt-topic-filter>{each}</mqtt-topic-filter>" for each in filters)
    rule = f"<forwarded-topic><filters>{inside}</filters>{more}</forwarded-topic>"
    found, report = bridge(f"<forwarded-topics>{rule}</forwarded-topics>", around=around)
    return found["localSubscriptions"][0], report


def test_every_option_of_a_bridge_is_ours(every: tuple[dict[str, Any], Report]) -> None:
    cloud = every[0]["bridges"][0]
    assert {key: cloud[key] for key in ("id", "host", "port", "clientId", "cleanStart", "sessionExpiry", "keepAlive")} == {
        "id": "cloud",
        "host": "${ENV:CLOUD_HOST}",
        "port": "${ENV:CLOUD_PORT}",
        "clientId": "plant-7",
        "cleanStart": True,
        "sessionExpiry": 7200,
        "keepAlive": 30,
    }
    assert (cloud["username"], cloud["password"]) == ("plant-7", "${ENV:CLOUD_PASSWORD}")
    assert cloud["bridgeTls"] == {
        "caFile": "/opt/hivemq/conf/trust.p12",
        "caPassword": "changeme",
        "certFile": "/opt/hivemq/conf/bridge.p12",
        "keyPassword": "${ENV:STORE_PASSWORD}",
        "protocols": ["TLSv1.2", "TLSv1.3"],
        "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
        "verifyHostname": False,
        "handshakeTimeout": 15,
    }
    assert cloud["bridgeWebsocketConfig"] == {"path": "/bridge", "subProtocol": "mqtt"}
    assert (cloud["persist"], cloud["loopPreventionEnabled"], cloud["loopPreventionHopCount"]) == (True, True, 2)
    assert cloud["localSubscriptions"][0] == {
        "filters": ["factory/#", "factory/+/alarm"],
        "destination": "sites/${bridge.name}/{2-#}",
        "excludes": ["factory/test/#"],
        "maxQoS": 1,
        "preserveRetain": False,
        "customUserProperties": [{"key": "site", "value": "plant-7"}],
        "queueLimit": 500,
    }
    assert cloud["remoteSubscriptions"] == [
        {
            "filters": ["commands/plant-7/#"],
            "destination": "{3-#}",
            "maxQoS": 2,
            "preserveRetain": True,
            "customUserProperties": [{"key": "from", "value": "cloud"}],
        }
    ]


def test_what_is_around_the_bridges_comes_along(every: tuple[dict[str, Any], Report]) -> None:
    document = every[0]
    assert document["queuedMessages"] == {"maxQueuedMessages": 5000, "strategy": "discard-oldest"}
    assert document["persistence"] == {"mode": "file-native"}
    assert document["console"] == {"port": 8080, "host": "127.0.0.1"}
    assert [(each["host"], each["port"]) for each in document["listeners"]] == [("127.0.0.1", 1883), ("127.0.0.1", 1884)]


def test_nothing_is_left_out_in_silence(every: tuple[dict[str, Any], Report]) -> None:
    """Every leaf of the file, or something that it is in, has a line in the report."""
    lines = every[1].text()

    def told(element: Element) -> bool:
        return f"(line {element.line})" in lines

    def silent(element: Element) -> Iterator[Element]:
        if told(element):
            return
        if element.children:
            for child in element.children:
                yield from silent(child)
        else:
            yield element

    left = {element.name for element in silent(parse_xml(EVERY.read_bytes(), ""))}
    assert left == {"config-version", "name"}


def test_a_rule_without_max_qos_keeps_the_hidden_zero_and_says_so() -> None:
    rule, report = forwarded("a/#")
    assert rule["maxQoS"] == 0
    assert any("QoS 0 there" in line for line in report.differs)


@pytest.mark.parametrize(
    ("more", "around", "limit"),
    [
        ("", "", None),
        ("<queue-limit>10</queue-limit>", "", 20),
        ("", "<mqtt><queued-messages><max-queue-size>7</max-queue-size></queued-messages></mqtt>", 14),
        ("<queue-limit>-1</queue-limit>", "", None),
        ("<queue-limit>${ENV:LIMIT}</queue-limit>", "", "${ENV:LIMIT}"),
    ],
)
def test_a_limit_for_each_filter_becomes_one_for_all_of_them(more: str, around: str, limit: int | str | None) -> None:
    rule, _ = forwarded("a/#", "b/#", more=more, around=around)
    assert rule.get("queueLimit") == limit


def test_of_one_filter_the_limit_is_the_same() -> None:
    rule, report = forwarded("a/#", more="<queue-limit>10</queue-limit>")
    assert rule["queueLimit"] == 10
    assert not any("filters there" in line for line in report.differs)


def test_the_same_rule_twice_is_the_later_one(every: tuple[dict[str, Any], Report]) -> None:
    (rule,) = every[0]["bridges"][1]["localSubscriptions"]
    assert (rule["filters"], rule["maxQoS"]) == (["b/#", "a/#"], 2)


def test_a_username_without_a_password_was_never_used(every: tuple[dict[str, Any], Report]) -> None:
    assert "username" not in every[0]["bridges"][1]
    assert any("needs both" in line for line in every[1].differs)


def test_a_java_store_comes_with_the_command_that_converts_it() -> None:
    store = "<truststore><path>conf/t.jks</path><password>p</password></truststore>"
    found, report = bridge(remote=f"<tls><enabled>true</enabled>{store}</tls>")
    assert found["bridgeTls"] == {"caFile": "conf/t.p12", "caPassword": "p"}
    assert any("keytool -importkeystore -srckeystore conf/t.jks -destkeystore conf/t.p12" in line for line in report.differs)


def test_tls_that_is_off_is_off() -> None:
    found, _ = bridge(remote="<tls><enabled>false</enabled><verify-hostname>false</verify-hostname></tls>")
    assert "bridgeTls" not in found


def test_nobody_else_may_connect_who_was_asked_for_a_name_before(every: tuple[dict[str, Any], Report]) -> None:
    assert any("auth.allowAnonymous" in line for line in every[1].differs)
    assert "auth" not in every[0]


def test_the_smallest_file_is_enough() -> None:
    document, report = imported((DATA / "hivemq-minimal.xml").read_bytes())
    assert document["bridges"] == [
        {"id": "simplest", "host": "broker.example.com", "localSubscriptions": [{"filters": ["#"], "maxQoS": 0}]}
    ]
    assert any("1,000,000" in line for line in report.differs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<hivemq>", "not valid XML"),
        ("", "not valid XML"),
        ("<other/>", "begins with <other>"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><hivemq>&x;</hivemq>', "a DTD is not read"),
        ('<!DOCTYPE a SYSTEM "http://127.0.0.1/x.dtd"><hivemq/>', "a DTD is not read"),
        ("<hivemq>&secret;</hivemq>", "not valid XML"),
        ("<a>" * 100 + "</a>" * 100, "nested too deeply"),
        ("<hivemq><mqtt-bridges><mqtt-bridge><id>b</id></mqtt-bridge></mqtt-bridges></hivemq>", "remote-broker are required"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(CommandError, match=reason) as refused:
        imported(text)
    assert "\n" not in str(refused.value)


def test_a_number_that_is_none_is_told_with_its_line() -> None:
    with pytest.raises(CommandError, match=r"remote-broker/port \(line 1\): must be a whole number"):
        bridge(remote="<port>many</port>")


def test_fragments_are_told() -> None:
    _, report = imported("<hivemq>${FRAGMENT:/x.xml}</hivemq>")
    assert any("FRAGMENT" in line for line in report.missing)
