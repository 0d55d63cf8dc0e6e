"""The bridge under conditions: both directions and every QoS while the line is cut, comes late, forgets, renames or retains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import until

pytestmark = pytest.mark.mosquitto

VERSIONS = {"5": 5, "3.1.1": "3.1.1"}
RULES: dict[str, dict[str, Any]] = {
    "late": {},
    "cut": {},
    "clean": {"cleanStart": True},
    "remap": {},
    "retain": {},
}
ROUTES: dict[str, dict[str, Any]] = {"remap": {"destination": "mapped/{2-#}/{1}"}, "retain": {"preserveRetain": True}}
QOS = (0, 1, 2)


@dataclass
class Site:
    node: NodeProcess
    remote: Mosquitto
    wires: dict[str, Proxy] = field(default_factory=dict)

    def publish(self, direction: str, name: str, numbers: range) -> None:
        """So many messages at each QoS."""
        with Client(self.node.port if direction == "push" else self.remote.port) as source:
            source.publish_all(Message(f"{direction}/{name}/{qos}", b"%d" % number, qos) for number in numbers for qos in QOS)

    def go_away(self, name: str) -> None:
        self.wires[name].close()
        until(lambda: self.node.bridge(name)["state"] != "connected", "the bridge notices")

    def come_back(self, name: str) -> None:
        self.wires[name].open()
        self.node.wait_connected(name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("conditions")
    remote = Mosquitto(directory / "remote").start()
    wires = {f"{rule}-{key.replace('.', '')}": Proxy(remote.port) for rule in RULES for key in VERSIONS}
    bridges = [
        {
            "id": name,
            "host": "127.0.0.1",
            "port": wire.port,
            "mqttVersion": next(version for key, version in VERSIONS.items() if name.endswith("-" + key.replace(".", ""))),
            "localSubscriptions": [{"filters": [f"push/{name}/#"], **ROUTES.get(name.split("-")[0], {})}],
            "remoteSubscriptions": [{"filters": [f"pull/{name}/#"], **ROUTES.get(name.split("-")[0], {})}],
            **RULES[name.split("-")[0]],
        }
        for name, wire in wires.items()
    ]
    for name, wire in wires.items():
        if not name.startswith("late"):
            wire.open()
    node = NodeProcess(directory / "node", {"pipeline": {"engine": "inline"}, "bridges": bridges}).launch()
    node.wait_ready()
    yield Site(node, remote, wires)
    for wire in wires.values():
        wire.heal()
    node.close()
    for wire in wires.values():
        wire.close()
    remote.stop()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param).replace(".", "")


def came(client: Client, direction: str, name: str) -> dict[int, list[int]]:
    """What has come at each QoS."""
    topics = client.topics()
    return {qos: [int(each) for each in topics.get(f"{direction}/{name}/{qos}", [])] for qos in QOS}


def test_what_is_published_before_the_remote_is_there_arrives_when_it_is(site: Site, version: str) -> None:
    name = f"late-{version}"
    site.publish("push", name, range(20))
    with Client(site.remote.port) as cloud, Client(site.node.port) as device:
        cloud.subscribe(f"push/{name}/#")
        device.subscribe(f"pull/{name}/#")
        site.come_back(name)
        site.publish("pull", name, range(20))
        expected = {qos: list(range(20)) for qos in QOS}
        cloud.wait_for(60)
        device.wait_for(60)
        assert came(cloud, "push", name) == came(device, "pull", name) == expected


@pytest.mark.parametrize("kind", ["cut", "clean"])
def test_what_is_published_while_the_line_is_cut_arrives_as_far_as_anybody_kept_it(site: Site, version: str, kind: str) -> None:
    """The remote keeps QoS 1 and 2 for a session; where there is none it keeps nothing."""
    name = f"{kind}-{version}"
    site.node.wait_connected(name)
    with Client(site.remote.port) as cloud, Client(site.node.port) as device:
        cloud.subscribe(f"push/{name}/#")
        device.subscribe(f"pull/{name}/#")
        for direction in ("push", "pull"):
            site.publish(direction, name, range(10))
        cloud.wait_for(30)
        device.wait_for(30)
        site.go_away(name)
        for direction in ("push", "pull"):
            site.publish(direction, name, range(10, 20))
        site.come_back(name)
        for direction in ("push", "pull"):
            site.publish(direction, name, range(20, 30))
        cloud.wait_for(90)
        device.wait_until(lambda _: all(numbers[-1:] == [29] for numbers in came(device, "pull", name).values()), "the last")
        assert came(cloud, "push", name) == {qos: list(range(30)) for qos in QOS}
        lost = {qos: [*range(10), *range(20, 30)] for qos in QOS}
        kept = lost if kind == "clean" else {qos: lost[0] if qos == 0 else list(range(30)) for qos in QOS}
        assert came(device, "pull", name) == kept


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_topics_are_renamed_on_the_way(site: Site, version: str, direction: str) -> None:
    name = f"remap-{version}"
    site.node.wait_connected(name)
    with Client(site.remote.port if direction == "push" else site.node.port) as target:
        target.subscribe(f"mapped/{name}/#")
        site.publish(direction, name, range(10))
        target.wait_for(30)
        renamed = {f"mapped/{name}/{qos}/{direction}": [b"%d" % number for number in range(10)] for qos in QOS}
        assert target.topics() == renamed


def test_what_is_retained_here_is_retained_there_and_deleted_there(site: Site, version: str) -> None:
    name = f"retain-{version}"
    topics = [f"push/{name}/{qos}" for qos in QOS]
    site.node.wait_connected(name)
    with Client(site.node.port) as device:
        device.publish_all(Message(topic, b"kept", qos, retain=True) for qos, topic in enumerate(topics))
        until(lambda: stored(site.remote.port, f"push/{name}/#") == dict.fromkeys(topics, b"kept"), "it is retained there")
        site.go_away(name)
        device.publish_all([Message(topics[1], b"", 1, retain=True), Message(topics[2], b"new", 2, retain=True)])
        site.come_back(name)
        left = {topics[0]: b"kept", topics[2]: b"new"}
        until(lambda: stored(site.remote.port, f"push/{name}/#") == left, "it is level again")


def stored(port: int, topic_filter: str) -> dict[str, bytes]:
    with Client(port) as client:
        client.subscribe(topic_filter)
        return {message.topic: message.payload for message in client.barrier() if message.retain}
