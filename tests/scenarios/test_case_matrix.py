"""Mosquitto's own bridge matrix: direction x QoS x MQTT version x (late, disconnect, clean session, remap, retained).

One node has a bridge for each case and version. Everything is published once, in three acts (before the first connection, with
one, during an outage); then each row of the matrix says what must have come of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from support.client import VERSIONS, Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import until

pytestmark = pytest.mark.mosquitto

DIRECTIONS = ("push", "pull")
CASES: dict[str, dict[str, Any]] = {
    "late": {},
    "disconnect": {},
    "clean": {"cleanStart": True},
    "remap": {"destination": "remapped/{2}/{+1}/{3}"},
    "retained": {"preserveRetain": True},
}
LEVELS = (0, 1, 2)


class Row(NamedTuple):
    case: str
    version: str
    direction: str
    qos: int

    @property
    def topic(self) -> str:
        return "/".join(map(str, self))

    @property
    def arrives_at(self) -> str:
        return f"remapped/{self.version}/{self.qos}/{self.direction}" if self.case == "remap" else self.topic

    def expected(self) -> list[tuple[bytes, int, bool]]:
        """What comes out: payload, QoS, retain flag."""
        keeps_flag = self.case == "retained" and (self.direction == "push" or self.version == "5")
        acts = [b"connected"]
        if self.case == "late" and self.direction == "push":
            acts.insert(0, b"before")  # what is published before the bridge is there waits; a remote knows of no such bridge
        waits_at_the_remote = self.qos > 0 and self.case == "disconnect"
        if self.case in ("disconnect", "clean") and (self.direction == "push" or waits_at_the_remote):
            acts.append(b"outage")
        return [(act, self.qos, keeps_flag) for act in acts]


ROWS = [Row(case, version, way, qos) for case in CASES for version in VERSIONS for way in DIRECTIONS for qos in LEVELS]


class Stage:
    """The node, the remote, the wires between them, and who publishes at each."""

    def __init__(self, stack: ExitStack, remote: Mosquitto, node: NodeProcess, wires: dict[tuple[str, str], Proxy]) -> None:
        self.node, self.wires = node, wires
        self.here, self.there = (stack.enter_context(Client(port)) for port in (node.port, remote.port))

    def act(self, payload: bytes, *cases: str) -> None:
        for direction, source in (("push", self.here), ("pull", self.there)):
            source.publish_all(
                Message(row.topic, payload, row.qos, retain=row.case == "retained")
                for row in ROWS
                if row.case in cases and row.direction == direction
            )

    def bridges(self, *cases: str) -> list[str]:
        return [self.node.bridge(_name(case, version))["state"] for case in cases for version in VERSIONS]

    def open(self, *cases: str) -> None:
        for case in cases:
            for version in VERSIONS:
                self.wires[case, version].open()
        self.node.wait_connected()

    def shut(self, *cases: str) -> None:
        for case in cases:
            for version in VERSIONS:
                self.wires[case, version].close()
        until(lambda: "connected" not in self.bridges(*cases), "the bridges notice")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """Its own: retained messages stay."""
    broker = Mosquitto(tmp_path_factory.mktemp("cases")).start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def came(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[tuple[bytes, int, bool]]]]:
    """What came out on each topic."""
    with ExitStack() as stack:
        wires = {(case, version): Proxy(remote.port) for case in ("late", "disconnect", "clean") for version in VERSIONS}
        for (case, _), wire in wires.items():
            stack.callback(wire.close)
            if case != "late":
                wire.open()
        ports = {key: wire.port for key, wire in wires.items()}
        bridges = [_bridge(case, version, ports.get((case, version), remote.port)) for case in CASES for version in VERSIONS]
        node = NodeProcess(tmp_path_factory.mktemp("matrix"), {"pipeline": {"engine": "inline"}, "bridges": bridges})
        node.launch().wait_ready()
        stack.callback(node.close)
        stage = Stage(stack, remote, node, wires)
        targets = {"push": stack.enter_context(Client(remote.port)), "pull": stack.enter_context(Client(node.port))}
        for direction, target in targets.items():
            for topic_filter in (f"+/+/{direction}/#", f"remapped/+/+/{direction}"):
                target.subscribe(topic_filter, retainAsPublished=True)
        stage.act(b"before", "late")
        stage.open("late")
        stage.act(b"connected", *CASES)
        node.wait_drained()
        stage.shut("disconnect", "clean")
        stage.act(b"outage", "disconnect", "clean")
        stage.open("disconnect", "clean")
        found: dict[str, list[tuple[bytes, int, bool]]] = {}
        for direction, target in targets.items():
            target.wait_for(sum(len(row.expected()) for row in ROWS if row.direction == direction))
            node.wait_drained()
            for message in target.barrier():
                found.setdefault(message.topic, []).append((message.payload, message.qos, message.retain))
        yield found


def _name(case: str, version: str) -> str:
    return f"{case}-{'five' if version == '5' else 'four'}"


def _bridge(case: str, version: str, port: int) -> dict[str, Any]:
    rule = {name: value for name, value in CASES[case].items() if name != "cleanStart"}
    return {
        "id": _name(case, version),
        "host": "127.0.0.1",
        "port": port,
        "mqttVersion": 5 if version == "5" else version,
        "cleanStart": CASES[case].get("cleanStart", False),
        "localSubscriptions": [{"filters": [f"{case}/{version}/push/+"], **rule}],
        "remoteSubscriptions": [{"filters": [f"{case}/{version}/pull/+"], **rule}],
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.topic.replace("/", "-"))
def test_each_row_of_the_matrix_gets_what_it_is_promised(
    came: dict[str, list[tuple[bytes, int, bool]]], row: Row
) -> None:
    assert came.get(row.arrives_at, []) == row.expected()
