"""Every key of the contract has the default the contract gives it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from bridgehead.settings import Settings, default_settings, from_document

MIB, GIB = 2**20, 2**30


def one_bridge(**more: object) -> Settings:
    return from_document({"bridges": [{"id": "cloud", "host": "broker.example.com", **more}]})


def test_a_node_that_is_told_nothing_follows_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "plant 7.local")
    dumped = default_settings().model_dump(by_alias=True)
    assert dumped == {
        "node": "plant-7.local",
        "dataDir": tmp_path / "bridgehead-data",
        "listeners": ({"type": "tcp", "host": "127.0.0.1", "port": 1883, "tls": None, "path": None},),
        "auth": {"allowAnonymous": True, "users": (), "permissions": ()},
        "persistence": {"mode": "in-memory", "sync": True, "minFree": 256 * MIB},
        "queuedMessages": {"maxQueuedMessages": 1_000_000, "maxQueueBytes": GIB, "strategy": "discard"},
        "journal": {"maxBytes": 4 * GIB, "retain": {"hours": 0, "bytes": 0}},
        "pipeline": {
            "engine": "spark",
            "master": "local[*]",
            "conf": {},
            "checkpoint": None,
            "external": False,
            "nodes": (),
            "flight": {"host": "127.0.0.1", "port": 0, "advertise": None, "token": None, "tls": None},
            "maxRowsPerBatch": 200_000,
            "maxBytesPerBatch": 256 * MIB,
        },
        "console": {"host": "127.0.0.1", "port": 8080, "token": None},
        "bridges": (),
        "watchFile": True,
    }


def test_a_bridge_that_names_only_its_remote_follows_the_contract() -> None:
    assert one_bridge().bridges[0].model_dump(by_alias=True) == {
        "id": "cloud",
        "host": "broker.example.com",
        "hosts": None,
        "port": 1883,
        "clientId": "cloud",
        "mqttVersion": 5,
        "keepAlive": 60,
        "sessionExpiry": 3600,
        "cleanStart": False,
        "username": None,
        "usernameFile": None,
        "password": None,
        "passwordFile": None,
        "connectUserProperties": (),
        "bridgeTls": None,
        "bridgeWebsocketConfig": None,
        "proxy": None,
        "persist": True,
        "loopPreventionEnabled": True,
        "loopPreventionHopCount": 1,
        "messageIdProperty": None,
        "noLocal": True,
        "joinFilters": True,
        "watchdog": None,
        "tier2Limit": 10_000,
        "rateLimit": None,
        "liveFirst": False,
        "queueWhileStopped": True,
        "localSubscriptions": (),
        "remoteSubscriptions": (),
    }


@pytest.mark.parametrize(
    ("key", "only_here"), [("localSubscriptions", {"excludes": ()}), ("remoteSubscriptions", {"retained": "skip"})]
)
def test_a_rule_that_names_only_its_filters_follows_the_contract(key: str, only_here: dict[str, object]) -> None:
    bridge = one_bridge(**{key: [{"filters": ["a/#"]}]}).bridges[0]
    assert bridge.model_dump(by_alias=True)[key][0] == {
        "filters": ("a/#",),
        "destination": None,
        "rewrite": (),
        "customUserProperties": (),
        "preserveRetain": False,
        "maxQoS": 2,
        "queueLimit": None,
        "maxQueueBytes": None,
        "strategy": None,
        "maxAge": None,
        "engine": None,
        "transform": None,
        "archive": None,
        **only_here,
    }


def test_settings_cannot_be_changed() -> None:
    settings = default_settings()
    with pytest.raises(ValidationError):
        settings.node = "other"  # type: ignore[misc]


def test_relative_paths_are_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_document({"dataDir": "a/b"}).data_dir == tmp_path / "a" / "b"
    assert from_document({"dataDir": "/a/b"}).data_dir == Path("/a/b")


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [("256MiB", 256 * MIB), ("1 GiB", GIB), (4096, 4096), ("4096", 4096), ("7B", 7), ("2TiB", 2**41)],
)
def test_sizes_are_read_as_bytes(written: object, bytes_: int) -> None:
    assert from_document({"journal": {"maxBytes": written}}).journal.max_bytes == bytes_


def test_spark_configuration_is_text_however_yaml_read_it() -> None:
    conf = from_document({"pipeline": {"conf": {"a": True, "b": 4, "c": "x", "d": 0.5}}}).pipeline.conf
    assert conf == {"a": "true", "b": "4", "c": "x", "d": "0.5"}


@pytest.mark.parametrize(("written", "version"), [(5, 5), ("5", 5), ("3.1.1", "3.1.1")])
def test_both_versions_of_mqtt_can_be_named(written: object, version: object) -> None:
    assert one_bridge(mqttVersion=written).bridges[0].mqtt_version == version


def test_the_remote_is_given_as_host_or_as_hosts() -> None:
    assert one_bridge(port=8883).bridges[0].addresses() == (("broker.example.com", 8883),)
    named = from_document({"bridges": [{"id": "a", "hosts": [{"host": "h"}]}]})
    assert named.bridges[0].addresses() == (("h", 1883),)


def test_a_username_alone_is_allowed() -> None:
    for version in (5, "3.1.1"):
        assert one_bridge(mqttVersion=version, username="u").bridges[0].username == "u"
