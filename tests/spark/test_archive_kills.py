"""kill -9 at random moments and at the worst ones, by seed: the archive holds each row once when all is calm again."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.failpoints import ARCHIVE_POINTS
from fault.failpoints import Points
from spark.lake import Lake
from support.client import Client, Message
from support.device import Device
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import PATIENCE, until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto, pytest.mark.timeout(900)]

BURST = 20
STARTS_WITHIN = 300.0
TOPICS = ("plain/a", "made/a", "memory/a")
ROUTES = [
    {"filters": ["plain/#"], "archive": {"path": "lake/plain"}},
    {
        "filters": ["made/#"],
        "transform": {"sql": "SELECT *, date'2020-01-01' AS date FROM messages"},  # a day that is over: merged meanwhile
        "archive": {"path": "lake/made", "partitionBy": ["date", "topicLevel2"]},
    },
    {  # a query with a memory: Spark repeats its batches by number
        "filters": ["memory/#"],
        "transform": {"python": "plant:distinct"},
        "archive": {"path": "lake/memory"},
    },
]
MODULE = """
def distinct(messages):
    return messages.withWatermark("received_at", "1 hour").dropDuplicatesWithinWatermark(["payload"])
"""


class Plant:
    """A device that publishes numbers at QoS 2 on every topic, whatever becomes of the node."""

    def __init__(self, port: int) -> None:
        self.sent = 0
        self._device = Device(port)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.2):
                numbers = range(self.sent, self.sent + BURST)
                self._device.publish_all([Message(topic, b"%d" % number, 2) for number in numbers for topic in TOPICS])
                self.sent += BURST
        except BaseException as error:
            self._error = error

    def wait_for_more(self, count: int) -> None:
        wanted = self.sent + count
        until(lambda: self.sent >= wanted or self._error is not None, "the device goes on")

    def stop(self) -> int:
        self._stop.set()
        self._thread.join(PATIENCE)
        self._device.close()
        assert self._error is None, self._error
        return self.sent


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path / "remote").start()
    yield broker
    broker.stop()


@pytest.fixture
def points(tmp_path: Path) -> Points:
    return Points(tmp_path / "failpoints")


@pytest.fixture
def node(tmp_path: Path, remote: Mosquitto, points: Points) -> Iterator[NodeProcess]:
    bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": ROUTES}
    document = {"persistence": {"mode": "file-native"}, "bridges": [bridge]}
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "plant.py").write_text(MODULE)
    node = NodeProcess(tmp_path / "node", document, points.environment).launch()
    node.wait_ready(STARTS_WITHIN)
    yield node
    node.close()


@pytest.fixture
def lakes(node: NodeProcess) -> list[Lake]:
    return [Lake(node.directory / "lake" / name) for name in ("plain", "made", "memory")]


def grow(node: NodeProcess, lakes: list[Lake]) -> None:
    """Every archive has got files since this was called."""
    for lake in lakes:
        had = set(lake.files())
        until(lambda lake=lake, had=had: set(lake.files()) - had, f"{lake.path} grows", STARTS_WITHIN, node.log)


def revive(node: NodeProcess) -> None:
    node.launch()
    node.wait_ready(STARTS_WITHIN)


def all_is_well(node: NodeProcess, lakes: list[Lake], sent: int, there: Client) -> None:
    """When nothing is on its way any more: each number once, everywhere."""
    node.wait_drained()
    expected = list(range(sent))
    for lake in lakes:
        assert lake.wait_for(sent) == expected
        until(lambda lake=lake: not lake.pending(), "nothing is left pending")
    assert any("~" in path.name for path in lakes[1].files()), "nothing was merged"
    there.barrier()
    came = there.topics()
    for topic in TOPICS:
        assert sorted(map(int, came[topic])) == expected


@pytest.mark.parametrize("seed", [2])
def test_each_row_is_in_the_archive_once_whatever_was_killed(
    node: NodeProcess, remote: Mosquitto, lakes: list[Lake], points: Points, seed: int
) -> None:
    chance = random.Random(seed)
    moments = [*ARCHIVE_POINTS, "driver.committed", "node.committed"]
    deaths = [*moments, "jvm"]
    chance.shuffle(deaths)
    plant = Plant(node.port)
    with Client(remote.port) as there:
        there.subscribe("#")
        for death in deaths:
            grow(node, lakes)
            plant.wait_for_more(chance.randrange(1, 10) * BURST)
            if death == "jvm":
                node.jvm().kill()
            else:
                points.strike(death, node.log)
            if death.startswith("node."):
                until(lambda: node.ended, "the node is gone")
                revive(node)
        grow(node, lakes)
        all_is_well(node, lakes, plant.stop(), there)
    assert set(points.struck()) == set(moments)
