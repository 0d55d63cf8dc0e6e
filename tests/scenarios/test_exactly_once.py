"""QoS 2 towards mosquitto through kill -9 of a file-native node: nothing is lost, nothing comes twice, order is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.packets import PUBCOMP, PUBREC, PUBREL
from support.proxy import Proxy
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

KILLS = {"inline": 4, "spark": 2}  # a start of Spark takes its time
BURST = 400


class Line:
    """A file-native node with one bridge, a wire that can go wrong, and mosquitto, which stays up and keeps the session."""

    def __init__(self, directory: Path, engine: str = "inline", version: Any = 5) -> None:
        self.engine = engine
        self.remote = Mosquitto(directory / "remote").start()
        self.wire = Proxy(self.remote.port).open()
        bridge = {
            "id": "line",
            "host": "127.0.0.1",
            "port": self.wire.port,
            "mqttVersion": version,
            "localSubscriptions": [{"filters": ["line/#"]}],
        }
        document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": engine}, "bridges": [bridge]}
        self.node = NodeProcess(directory / "node", document).start()
        self.there = Client(self.remote.port)
        self.there.subscribe("line/#")
        self.published = 0

    def publish(self, count: int) -> None:
        """So many of QoS 1 and of QoS 2, in turns, acknowledged by the node."""
        batch = range(self.published, self.published + count)
        with Client(self.node.port) as here:
            here.publish_all([Message(f"line/{qos}", b"%d" % number, qos) for number in batch for qos in (1, 2)])
        self.published += count

    def kill(self) -> None:
        self.node.kill()
        self.wire.heal()
        self.node.start()

    def check(self) -> None:
        """Everything has come: QoS 2 once and in order, QoS 1 at least once, each first time in order."""
        self.node.wait_drained()
        self.there.barrier()
        everything = list(range(self.published))
        assert numbers(self.there, "line/2") == everything
        assert list(dict.fromkeys(numbers(self.there, "line/1"))) == everything
        assert self.node.bridge("line")["possiblyDoubled"] == 0

    def close(self) -> None:
        self.there.close()
        self.node.close()
        self.wire.close()
        self.remote.stop()


INLINE_5 = pytest.param({"engine": "inline", "version": 5}, id="inline-5")
INLINE_3 = pytest.param({"engine": "inline", "version": "3.1.1"}, id="inline-3.1.1")
SPARK_5 = pytest.param({"engine": "spark", "version": 5}, id="spark-5", marks=pytest.mark.spark)


@pytest.fixture(scope="module")
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Tests of one kind of line share it: each checks all that was published so far, and leaves the wire as good as new."""
    line = Line(tmp_path_factory.mktemp("line"), **getattr(request, "param", {}))
    yield line
    line.close()


@pytest.mark.parametrize("line", [INLINE_5, INLINE_3, SPARK_5], indirect=True)
def test_a_node_killed_again_and_again_in_mid_flow_doubles_and_loses_nothing(line: Line) -> None:
    line.wire.throttle(100_000)  # a kill finds messages at every step of the handshake
    kills = KILLS[line.engine]
    for kill in range(kills):
        before = len(line.there.messages)
        line.publish(BURST)
        until(lambda seen=before: len(line.there.messages) > seen + 20, "messages flow", detail=line.node.log)
        line.node.kill()
        if kill == kills - 1:
            line.wire.heal()
        line.node.start()
    line.publish(BURST)
    line.check()


@pytest.mark.parametrize("kind", [PUBREC, PUBCOMP], ids=["PUBREC", "PUBCOMP"])
@pytest.mark.parametrize("line", [INLINE_5, INLINE_3], indirect=True)
def test_a_node_killed_while_an_answer_is_on_its_way_doubles_nothing(line: Line, kind: int) -> None:
    lost = line.wire.swallow(kind, count=None)
    line.publish(5)
    lost.wait()
    line.kill()
    line.publish(5)
    line.check()


@pytest.mark.parametrize("line", [INLINE_5], indirect=True)
def test_a_node_killed_before_its_pubrel_arrives_doubles_nothing(line: Line) -> None:
    lost = line.wire.swallow(PUBREL, count=None, way="out")
    line.publish(5)
    lost.wait()
    line.kill()
    line.check()


def test_a_session_that_mosquitto_has_lost_while_the_node_was_dead_costs_nothing_and_is_counted(line: Line) -> None:
    lost = line.wire.swallow(PUBCOMP, count=None)
    line.publish(5)
    lost.wait()
    until(lambda: line.node.routes("line", "push")[0]["inFlight"] == 5, "only QoS 2 is left", detail=line.node.status)
    line.node.kill()
    line.there.close()
    line.remote.kill()
    line.wire.heal()
    line.remote.start()
    line.there = Client(line.remote.port)
    line.there.subscribe("line/#")
    line.node.start()
    line.node.wait_drained()
    line.there.barrier()
    assert numbers(line.there, "line/2") == list(range(5))
    assert line.node.bridge("line")["possiblyDoubled"] == 5
