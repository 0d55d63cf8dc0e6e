"""Mosquitto's own bridge matrix: direction x QoS x MQTT version x (late, disconnect, clean session, remap, retained).

One node has a bridge for each case and version. Everything is published in three acts (before the first connection, with
one, during an outage); then each row of the matrix says what must have come of it, and what is stored where it came.
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
STAY = tuple(case for case in CASES if case != "late")  # those that lose their connection in the last act

Came = tuple[bytes, int, bool]


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

    @property
    def keeps_flag(self) -> bool:
        return self.case == "retained" and (self.direction == "push" or self.version == "5")

    def expected(self) -> list[Came]:
        """What comes out: payload, QoS, retain flag."""
        acts = [b"connected"]
        if self.case == "late" and self.direction == "push":
            acts.insert(0, b"before")  # what is published before the bridge is there waits; a remote knows of no such bridge
        waits_at_the_remote = self.qos > 0 and self.case != "clean"
        if self.case in STAY and (self.direction == "push" or waits_at_the_remote):
            acts.append(b"outage")
        return [(act, self.qos, self.keeps_flag) for act in acts]


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


class Outcome(NamedTuple):
    came: dict[str, list[Came]]  # on each topic
    stored: dict[str, dict[str, bytes]]  # by direction: what a subscriber of later finds retained


@pytest.fixture(scope="module")
def outcome(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with ExitStack() as stack:
        wires = {(case, version): Proxy(remote.port) for case in CASES for version in VERSIONS}
        for (case, _), wire in wires.items():
            stack.callback(wire.close)
            if case != "late":
                wire.open()
        bridges = [_bridge(case, version, wire.port) for (case, version), wire in wires.items()]
        node = NodeProcess(tmp_path_factory.mktemp("matrix"), {"pipeline": {"engine": "inline"}, "bridges": bridges})
        node.launch().wait_ready()
        stack.callback(node.close)
        stage = Stage(stack, remote, node, wires)
        ports = {"push": remote.port, "pull": node.port}
        targets = {direction: stack.enter_context(Client(port)) for direction, port in ports.items()}
        for direction, target in targets.items():
            for topic_filter in (f"+/+/{direction}/#", f"remapped/+/+/{direction}"):
                target.subscribe(topic_filter, retainAsPublished=True)
        stage.act(b"before", "late")
        stage.open("late")
        stage.act(b"connected", *CASES)
        node.wait_drained()
        stage.shut(*STAY)
        stage.act(b"outage", *STAY)
        stage.open(*STAY)
        found: dict[str, list[Came]] = {}
        for direction, target in targets.items():
            target.wait_for(sum(len(row.expected()) for row in ROWS if row.direction == direction))
            node.wait_drained()
            for message in target.barrier():
                found.setdefault(message.topic, []).append((message.payload, message.qos, message.retain))
        yield Outcome(found, {direction: _stored(port, direction) for direction, port in ports.items()})


def _stored(port: int, direction: str) -> dict[str, bytes]:
    with Client(port) as late:
        for topic_filter in (f"+/+/{direction}/#", f"remapped/+/+/{direction}"):
            late.subscribe(topic_filter)
        return {message.topic: message.payload for message in late.barrier()}


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
def test_each_row_of_the_matrix_gets_what_it_is_promised(outcome: Outcome, row: Row) -> None:
    expected = row.expected()
    assert outcome.came.get(row.arrives_at, []) == expected
    assert outcome.stored[row.direction].get(row.arrives_at) == (expected[-1][0] if row.keeps_flag else None)
