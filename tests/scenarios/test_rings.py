"""Rings and a star of bridges that run both ways: how many copies of a message each broker gets is computed, and then counted.

Each of them is there for the limits 1, 2 and 3, with all connections of MQTT 5 and with one of 3.1.1, which cannot carry the
hop count. Each such case has its own topics and bridges; all share three nodes and one mosquitto.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
import yaml

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

NODES = ("a", "b", "c")
BROKERS = (*NODES, "mosquitto")
RINGS = {  # who bridges to whom; the last connection is the one that may be of 3.1.1
    "two": (("a", "b"), ("b", "a")),
    "three": (("a", "b"), ("b", "c"), ("c", "a")),
    "around": (("a", "b"), ("b", "mosquitto"), ("a", "mosquitto")),
    "star": (("a", "mosquitto"), ("b", "mosquitto"), ("c", "mosquitto")),
}
LIMITS = (1, 2, 3)
MANY = 1000
"""A case with more copies than this has no end."""


class Leg(NamedTuple):
    """One bridge: both ways, on all topics of its case."""

    name: str
    owner: str
    remote: str
    limit: int
    counts: bool  # its connection can carry the hop count


class Case(NamedTuple):
    ring: str
    limit: int
    old_leg: bool

    def __str__(self) -> str:
        return f"{self.ring}-{self.limit}-{'old' if self.old_leg else 'new'}"

    @property
    def legs(self) -> list[Leg]:
        ring = RINGS[self.ring]
        return [
            Leg(f"{self}-{at}", *ends, self.limit, not (self.old_leg and at == len(ring) - 1)) for at, ends in enumerate(ring)
        ]

    def copies(self, origin: str) -> dict[str, int]:
        """How many each broker gets of a message that is published once."""
        found: Counter[str] = Counter()
        published = [(origin, 0, "somebody")]
        while published:
            place, hops, by = published.pop()
            found[place] += 1
            assert found.total() < MANY, "it goes round for ever"
            for leg in self.legs:
                if leg.owner == place and hops < (leg.limit if leg.counts else 1):
                    published.append((leg.remote, hops + 1 if leg.counts else 0, leg.name))
                if leg.remote == place and by != leg.name and (hops < leg.limit or not leg.counts):
                    published.append((leg.owner, hops + 1 if leg.counts else leg.limit, leg.name))
        return dict(found)


CASES = [Case(ring, limit, old) for ring in RINGS for limit in LIMITS for old in (False, True)]


@pytest.fixture(scope="module")
def ports(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], list[NodeProcess]]]:
    """The port of each broker, when all of them are connected."""
    nodes = {name: NodeProcess(tmp_path_factory.mktemp(name), {"node": name}) for name in NODES}
    ports = {"mosquitto": remote.port, **{name: node.port for name, node in nodes.items()}}
    for name, node in nodes.items():
        document = yaml.safe_load(node.file.read_text())  # with the ports that the others must know
        bridges = [_bridge(leg, ports) for leg in _legs_of(name)]
        node.file.write_text(yaml.safe_dump({**document, "pipeline": {"engine": "inline"}, "bridges": bridges}))
    with ThreadPoolExecutor() as pool:  # at once, so that few of them come before those that they connect to
        list(pool.map(NodeProcess.launch, nodes.values()))
        for node in nodes.values():
            node.wait_ready()
        for node in nodes.values():
            node.wait_connected()
        yield ports, list(nodes.values())
        list(pool.map(NodeProcess.close, nodes.values()))


def _legs_of(owner: str) -> list[Leg]:
    return [leg for case in CASES for leg in case.legs if leg.owner == owner]


def _bridge(leg: Leg, ports: dict[str, int]) -> dict[str, Any]:
    both = [{"filters": [f"{leg.name.rpartition('-')[0]}/#"]}]
    return {
        "id": leg.name,
        "host": "127.0.0.1",
        "port": ports[leg.remote],
        "mqttVersion": 5 if leg.counts else "3.1.1",
        "loopPreventionHopCount": leg.limit,
        "localSubscriptions": both,
        "remoteSubscriptions": both,
    }


def test_every_broker_of_a_ring_gets_as_many_copies_as_computed(
    ports: tuple[dict[str, int], list[NodeProcess]],
) -> None:
    port_of, nodes = ports
    expected: dict[str, dict[str, int]] = {name: {} for name in BROKERS}
    with ExitStack() as stack:
        clients = {name: stack.enter_context(Client(port_of[name])) for name in BROKERS}
        for client in clients.values():
            client.subscribe("#")
        for case in CASES:
            for origin in sorted({broker for ends in RINGS[case.ring] for broker in ends}):
                topic = f"{case}/{origin}"
                for broker, count in case.copies(origin).items():
                    expected[broker][topic] = count
                clients[origin].publish_all([Message(topic, b"once", 1)])
        until(
            lambda: all(clients[name].came >= Counter(expected[name]) for name in BROKERS),
            "all copies are there",
            detail=lambda: {name: _difference(clients[name].came, expected[name]) for name in BROKERS},
        )
        for _ in range(2):  # what one node has sent the other may still have to deal with
            for node in nodes:
                node.wait_drained()
        for name, client in clients.items():
            client.barrier()
            assert _difference(client.came, expected[name]) == {}, name


def _difference(came: Counter[str], expected: dict[str, int]) -> dict[str, tuple[int, int]]:
    """(came, expected) of each topic where they are not the same."""
    topics = {topic for topic in came if "/" in topic and topic.split("-")[0] in RINGS} | expected.keys()
    return {topic: (came[topic], expected.get(topic, 0)) for topic in topics if came[topic] != expected.get(topic, 0)}


@pytest.mark.parametrize("case", [case for case in CASES if case.limit == 1 and not case.old_leg], ids=str)
def test_with_the_usual_limit_nothing_comes_back_to_where_it_was_published(case: Case) -> None:
    """What the computation says of it, and a user expects."""
    for origin in {broker for ends in RINGS[case.ring] for broker in ends}:
        assert case.copies(origin)[origin] == 1
