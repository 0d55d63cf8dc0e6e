"""What is stored at the remote: left there, fetched once, or kept level through outages, deletions included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

WANTS: dict[str, dict[str, object]] = {
    "skip": {},
    "first": {"retained": "first"},
    "level": {"retained": "level", "preserveRetain": True},
}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("stored"), window=5).start()
    yield broker
    broker.stop()


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[Callable[[list[dict[str, Any]]], NodeProcess]]:
    """Makes a node that keeps what it has, with these bridges."""
    nodes: list[NodeProcess] = []

    def make(bridges: list[dict[str, Any]]) -> NodeProcess:
        document = {"pipeline": {"engine": "inline"}, "persistence": {"mode": "file-native"}, "bridges": bridges}
        nodes.append(NodeProcess(tmp_path / "node", document))
        return nodes[-1].start()

    yield make
    for node in nodes:
        node.close()


NodeOf = Callable[[list[dict[str, Any]]], NodeProcess]


def retain(port: int, **values: bytes) -> None:
    """Topics have no hyphen: ``level_a`` is ``level/a``."""
    with Client(port) as client:
        client.publish_all([Message(name.replace("_", "/"), value, 1, retain=True) for name, value in values.items()])


def retained(port: int, topic_filter: str) -> dict[str, bytes]:
    with Client(port) as client:
        client.subscribe(topic_filter)
        return {message.topic: message.payload for message in client.barrier() if message.retain}


def came(node: NodeProcess, bridge: str) -> int:
    [route] = node.routes(bridge, "pull")
    received: int = route["received"]
    return received


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_what_is_stored_comes_with_a_new_subscription_where_it_is_wanted(
    remote: Mosquitto, node_of: NodeOf, version: object
) -> None:
    name = f"v{version}".replace(".", "")
    retain(remote.port, **{f"skip_{name}": b"1", f"first_{name}": b"1"})
    bridges = [
        {
            "id": kind,
            "clientId": f"{kind}-{name}",
            "host": "127.0.0.1",
            "port": remote.port,
            "mqttVersion": version,
            "remoteSubscriptions": [{"filters": [f"{kind}/{name}"], **WANTS[kind]}],
        }
        for kind in ("skip", "first")
    ]
    node = node_of(bridges)
    until(lambda: came(node, "first") == 1, "what is stored comes")
    assert came(node, "skip") == 0
    node.stop()
    node.start()  # the session was kept: the subscription is not new
    retain(remote.port, **{f"skip_{name}": b"2", f"first_{name}": b"2"})
    until(lambda: came(node, "skip") == 1 and came(node, "first") > 1, "what is new comes")
    assert came(node, "first") == 2


def test_what_is_retained_is_level_with_the_remote_after_an_outage_and_nothing_else_is_touched(
    remote: Mosquitto, node_of: NodeOf
) -> None:
    many = {f"level_many{number}": b"x" for number in range(40)}  # more than the remote's window
    retain(remote.port, level_kept=b"1", level_gone=b"1", level_changed=b"1", **many)
    bridge = {
        "id": "level",
        "host": "127.0.0.1",
        "port": remote.port,
        "cleanStart": True,  # nothing waits for us at the remote: it is as after a lost session
        "remoteSubscriptions": [{"filters": ["level/#"], "destination": "here/{#}", **WANTS["level"]}],
    }
    node = node_of([bridge])
    node.wait_drained()
    stored = {f"here/{name.replace('_', '/')}": value for name, value in many.items()}
    first = {"here/level/kept": b"1", "here/level/gone": b"1", "here/level/changed": b"1", **stored}
    assert retained(node.port, "here/#") == first
    retain(node.port, here_own=b"mine")
    node.stop()
    retain(remote.port, level_gone=b"", level_changed=b"2", level_new=b"1", level_many7=b"")
    node.start()
    node.wait_drained()
    del first["here/level/gone"], first["here/level/many7"]
    first |= {"here/level/changed": b"2", "here/level/new": b"1", "here/own": b"mine"}
    assert retained(node.port, "here/#") == first
    assert node.bridge("level")["retainedDeleted"] == 2
    retain(remote.port, level_kept=b"")  # while connected the remote says so itself
    del first["here/level/kept"]
    until(lambda: retained(node.port, "here/#") == first, "it is gone here, too")
