"""A mosquitto's bridges become ours: topics with their prefixes, what differs, and nothing left out in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.commands.importing.mosquitto import import_mosquitto
from bridgehead.commands.importing.mosquittoconf import Option
from bridgehead.commands.importing.mosquittotopics import routes, topics_of
from bridgehead.commands.importing.report import Report
from bridgehead.errors import CommandError

EVERY = Path(__file__).parents[3] / "data" / "mosquitto-every-option.conf"


@pytest.fixture(scope="module")
def every() -> tuple[dict[str, Any], Report]:
    report = Report()
    return import_mosquitto(EVERY, report), report


def imported(directory: Path, *lines: str) -> tuple[dict[str, Any], Report]:
    file = directory / "mosquitto.conf"
    file.write_text("\n".join(lines))
    report = Report()
    return import_mosquitto(file, report), report


def bridge(directory: Path, *lines: str) -> tuple[dict[str, Any], Report]:
    document, report = imported(directory, "connection b", "address h", *lines)
    return document["bridges"][0], report


def route(*lines: str) -> list[dict[str, Any]]:
    return routes(topic for line in lines for topic in topics_of(Option("topic", line, "topic (line 1)")))


def test_every_option_of_a_bridge_is_ours(every: tuple[dict[str, Any], Report]) -> None:
    cloud = {key: value for key, value in every[0]["bridges"][0].items() if not key.endswith("Subscriptions")}
    assert cloud == {
        "id": "cloud-example",
        "hosts": [{"host": "broker-a.example.com", "port": 8883}, {"host": "broker-b.example.com", "port": 8883}],
        "clientId": "plant-7",
        "cleanStart": False,
        "sessionExpiry": 86400,
        "keepAlive": 30,
        "username": "plant-7",
        "password": "secret with spaces",
        "mqttVersion": 5,
        "bridgeTls": {
            "caFile": "/etc/mosquitto/certs/cloud-ca.pem",
            "certFile": "/etc/mosquitto/certs/plant-7.pem",
            "keyFile": "/etc/mosquitto/certs/plant-7.key",
            "verifyHostname": False,
            "cipherSuites": ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"],
            "protocols": ["TLSv1.2"],
        },
    }


def test_topics_that_differ_only_in_their_pattern_are_one_route(every: tuple[dict[str, Any], Report]) -> None:
    first, *_ = every[0]["bridges"][0]["localSubscriptions"]
    assert first == {
        "filters": ["factory/#", "factory/alarms/#"],
        "destination": "sites/plant-7/{2-#}",
        "maxQoS": 2,
        "preserveRetain": False,
    }


def test_nothing_is_left_out_in_silence(every: tuple[dict[str, Any], Report]) -> None:
    """Every option of the file has a line in the report."""
    told = every[1].text()
    lines = EVERY.read_text().splitlines()
    options = {number: line for number, line in enumerate(lines, 1) if line and not line.startswith("#")}
    left = [line for number, line in options.items() if f"(line {number})" not in told]
    assert left == []
    assert "secret with spaces" not in told


@pytest.mark.parametrize(
    ("line", "filters", "mapping"),
    [
        ("a/#", ["a/#"], {}),
        ("# out 1 L/ R/", ["L/#"], {"destination": "R/{2-#}"}),
        ('# out 1 L/ ""', ["L/#"], {"destination": "{2-#}"}),
        ('# out 1 "" R/', ["#"], {"destination": "R/{#}"}),
        ("x/+ out 1 a/b/ c/", ["a/b/x/+"], {"destination": "c/{3-#}"}),
        ("x/+ out 1 a/ a/", ["a/x/+"], {}),
        ('"" out 1 one two/three', ["one"], {"destination": "two/three"}),
        ("x/# out 1 pre sub", ["prex/#"], {"rewrite": [{"pattern": "^pre(.*)$", "replacement": "sub\\1"}]}),
        ('x/# out 1 "" sub', ["x/#"], {"rewrite": [{"pattern": "^(.*)$", "replacement": "sub\\1"}]}),
        ("x out 1 a/ $SYS/", ["a/x"], {"rewrite": [{"pattern": "^a/(.*)$", "replacement": "$SYS/\\1"}]}),
        ("# in 1 L/ R/", ["R/#"], {"destination": "L/{2-#}"}),
        ("clients/total in 0 test/ $SYS/broker/", ["$SYS/broker/clients/total"], {"destination": "test/{3-#}"}),
    ],
)
def test_prefixes_are_swapped(line: str, filters: list[str], mapping: dict[str, Any]) -> None:
    (found,) = route(line)
    assert found["filters"] == filters
    assert {key: value for key, value in found.items() if key not in ("filters", "maxQoS")} == mapping


def test_both_is_one_each_way() -> None:
    topics = list(topics_of(Option("topic", "# both 2 L/ R/", "")))
    assert [(each.direction, each.filter, each.target) for each in topics] == [("out", "L/#", "R/"), ("in", "R/#", "L/")]


def test_a_topic_without_a_qos_keeps_the_zero_and_says_so(tmp_path: Path) -> None:
    found, report = bridge(tmp_path, "topic a/# out")
    assert found["localSubscriptions"] == [{"filters": ["a/#"], "maxQoS": 0, "preserveRetain": True}]
    assert any("no QoS means 0" in line for line in report.differs)


def test_without_a_version_it_is_3_1_1_as_there(tmp_path: Path) -> None:
    found, _ = bridge(tmp_path)
    assert found == {"id": "b", "host": "h", "port": 1883, "mqttVersion": "3.1.1"}


def test_a_pre_shared_key_never_becomes_a_bridge_in_clear(tmp_path: Path) -> None:
    found, report = bridge(tmp_path, "bridge_identity me", "bridge_psk 12ab")
    assert found["bridgeTls"] == {"caFile": None}
    assert any("there is no PSK" in line for line in report.missing)
    assert "12ab" not in report.text()


def test_authorities_in_a_directory_come_with_the_command_that_makes_them_one_file(tmp_path: Path) -> None:
    found, report = bridge(tmp_path, "bridge_capath /etc/ssl/certs/")
    assert found["bridgeTls"] == {"caFile": "/etc/ssl/certs/ca.pem"}
    assert any("cat /etc/ssl/certs/*.crt > /etc/ssl/certs/ca.pem" in line for line in report.differs)


def test_the_authorities_of_the_system_are_tls_without_a_file(tmp_path: Path) -> None:
    found, _ = bridge(tmp_path, "bridge_tls_use_os_certs true")
    assert found["bridgeTls"] == {"caFile": None}


def test_a_bridge_that_must_not_say_what_it_is_gets_its_own_messages_back(tmp_path: Path) -> None:
    assert bridge(tmp_path, "try_private false")[0]["noLocal"] is False
    assert "noLocal" not in bridge(tmp_path, "try_private false", "bridge_protocol_version mqttv50")[0]


@pytest.mark.parametrize(("robin", "differs"), [("true", False), ("false", True)])
def test_of_several_addresses_the_working_one_is_kept(tmp_path: Path, robin: str, differs: bool) -> None:
    document, report = imported(tmp_path, "connection b", "address a:1 b", f"round_robin {robin}")
    assert document["bridges"][0]["hosts"] == [{"host": "a", "port": 1}, {"host": "b", "port": 1883}]
    assert any("stays with the one that works" in line for line in report.differs) is differs


def test_routes_that_overlap_with_other_prefixes_are_told(tmp_path: Path) -> None:
    _, report = bridge(tmp_path, "topic # out 1 a/ x/", "topic b/# out 1 a/ y/", "topic c/# out 1")
    assert len([line for line in report.differs if "overlap" in line]) == 1


def test_a_listener_that_asked_for_names_is_for_this_machine_only(tmp_path: Path) -> None:
    asked, report = imported(tmp_path, "listener 1883", "password_file /etc/passwd")
    assert asked["listeners"] == [{"type": "tcp", "host": "127.0.0.1", "port": 1883}]
    assert any("auth.allowAnonymous" in line for line in report.differs)
    everybody, _ = imported(tmp_path, "listener 1883", "allow_anonymous true")
    assert everybody["listeners"] == [{"type": "tcp", "host": "0.0.0.0", "port": 1883}]
    assert everybody["auth"] == {"allowAnonymous": True}


def test_an_old_file_names_its_port_without_a_listener(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, "port 1884", "bind_address 127.0.0.1")
    assert found["listeners"] == [{"type": "tcp", "host": "127.0.0.1", "port": 1884}]


def test_files_of_an_included_directory_are_read_in_order(tmp_path: Path) -> None:
    parts = tmp_path / "conf.d"
    parts.mkdir()
    (parts / "b.conf").write_text("address h\ntopic a/#\n")
    (parts / "a.conf").write_text("connection x\n")
    (parts / "not.txt").write_text("nonsense\n")
    document, report = imported(tmp_path, f"include_dir {parts}")
    assert [each["id"] for each in document["bridges"]] == ["x"]
    assert any(line.startswith("b.conf: address (line 1)") for line in report.maps)


def test_queues_are_bounded_as_they_were(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, "max_queued_messages 10", "max_queued_bytes 0")
    assert found["queuedMessages"] == {"maxQueuedMessages": 10}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["topic a/#"], "stands before any connection"),
        (["connection x"], "has no address"),
        (["connection x", "address h", "topic a sideways"], "the direction must be"),
        (["connection x", "address h", "topic a out 3"], "the QoS must be"),
        (["connection x", "address h", 'topic "" out 1 a ""'], "both prefixes are needed"),
        (["connection x", "address h", "topic a out 1 b c d"], "more than a pattern"),
        (["connection x", "address h:port"], "must be a whole number"),
        (["connection x", "address h", "cleansession maybe"], "must be true or false"),
        (["connection x", "address h", "bridge_protocol_version mqttv6"], "must be mqttv31"),
        (["persistence"], "has no value"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason) as refused:
        imported(tmp_path, *lines)
    assert "\n" not in str(refused.value)
    assert "line" in str(refused.value)


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"connection a\n\xff\n")
    with pytest.raises(CommandError, match=r"\(line 2\): not UTF-8"):
        import_mosquitto(tmp_path / "x", Report())
    with pytest.raises(CommandError, match="cannot be read"):
        import_mosquitto(tmp_path / "nothing", Report())
