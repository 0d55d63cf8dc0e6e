"""QoS 2 to local subscribers that keep their session and are there while the node is killed: exactly once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.packets import PUBCOMP, PUBREC, PUBREL
from support.proxy import Proxy
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

KILLS = 4
BURST = 300
VERSIONS = ["5", "3.1.1"]
NODE_VERSION = {"5": 5, "3.1.1": "3.1.1"}


class Street:
    """Mosquitto, a file-native node that pulls from it, and a subscriber of the node behind a wire that can go wrong."""

    def __init__(self, directory: Path, version: str) -> None:
        self.version = version
        self.remote = Mosquitto(directory / "remote").start()
        bridge = {
            "id": "line",
            "host": "127.0.0.1",
            "port": self.remote.port,
            "mqttVersion": NODE_VERSION[version],
            "remoteSubscriptions": [{"filters": ["far/#"]}],
        }
        document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": "inline"}, "bridges": [bridge]}
        self.node = NodeProcess(directory / "node", document).start()
        self.node.wait_connected()
        self.wire = Proxy(self.node.port).open()
        self.subscriber = Client(self.wire.port, version, "subscriber", lasting=True)
        self.subscriber.subscribe("far/#")
        self.subscriber.subscribe("near/#")
        self.published = {"far": 0, "near": 0}

    def publish(self, side: str, count: int) -> None:
        """So many of QoS 1 and of QoS 2, in turns: far on mosquitto, near on the node."""
        numbers = range(self.published[side], self.published[side] + count)
        with Client(self.remote.port if side == "far" else self.node.port, self.version) as source:
            source.publish_all([Message(f"{side}/{qos}", b"%d" % number, qos) for number in numbers for qos in (1, 2)])
        self.published[side] += count

    def check(self) -> None:
        """Everything has come: QoS 2 once and in order, QoS 1 at least once, each first time in order."""
        until(self._all_there, "everything comes", detail=self.node.log)
        self.subscriber.barrier()
        for side, count in self.published.items():
            assert numbers(self.subscriber, f"{side}/2") == list(range(count))
            assert list(dict.fromkeys(numbers(self.subscriber, f"{side}/1"))) == list(range(count))

    def _all_there(self) -> bool:
        there = self.subscriber.topics()
        return all(len(set(there.get(f"{side}/{qos}", []))) >= n for side, n in self.published.items() for qos in (1, 2))

    def close(self) -> None:
        self.subscriber.close()
        self.wire.close()
        self.node.close()
        self.remote.stop()


@pytest.fixture(scope="module", params=VERSIONS)
def street(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """Each test checks all that was published so far, and leaves the wire as good as new."""
    street = Street(tmp_path_factory.mktemp("street"), request.param)
    yield street
    street.close()


def test_a_subscriber_that_is_there_while_the_node_is_killed_again_and_again_gets_everything_once(street: Street) -> None:
    street.wire.throttle(60_000)  # a kill finds messages at every step of the handshake
    for kill in range(KILLS):
        before = len(street.subscriber.messages)
        street.publish("far", BURST)
        street.publish("near", BURST)
        until(lambda seen=before: len(street.subscriber.messages) > seen + 20, "messages flow", detail=street.node.log)
        street.node.kill()
        if kill == KILLS - 1:
            street.wire.heal()
        street.node.start()
    street.publish("near", BURST)
    street.publish("far", BURST)
    street.check()


@pytest.mark.parametrize(
    ("kind", "way"), [(PUBREC, "out"), (PUBREL, "back"), (PUBCOMP, "out")], ids=["PUBREC", "PUBREL", "PUBCOMP"]
)
def test_a_node_killed_while_a_step_of_the_handshake_is_on_its_way_doubles_nothing(street: Street, kind: int, way: str) -> None:
    lost = street.wire.swallow(kind, count=None, way=way)
    street.publish("near", 5)
    lost.wait()
    street.node.kill()
    street.wire.heal()
    street.node.start()
    street.publish("near", 5)
    street.check()
