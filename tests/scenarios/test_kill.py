"""kill -9 in mid-flow: the pipeline comes back, nothing is lost, nothing doubled; with the node everything ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psutil
import pytest

from support.client import Client
from support.mosquitto import Mosquitto
from support.node import NodeProcess, wait_gone
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = [pytest.mark.mosquitto, pytest.mark.spark]

VICTIMS: dict[str, Callable[[NodeProcess], psutil.Process]] = {
    "JVM": NodeProcess.jvm,
    "driver": NodeProcess.driver,
    "Python worker": NodeProcess.worker,
    "source reader": NodeProcess.source_reader,
}


ROUNDS = {"Python worker": 5, "source reader": 2}  # cheap ones die more than once: between batches, in the middle of one
NEW_DRIVER = ("JVM", "driver")  # without these there is no query left: the node starts a new driver


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    bridge = {
        "id": "victim",
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": [{"filters": ["kill/push/#"]}],
        "remoteSubscriptions": [{"filters": ["kill/pull/#"]}],
    }
    node = NodeProcess(tmp_path_factory.mktemp("kill"), {"bridges": [bridge]}).start()
    yield node
    node.close()


@pytest.fixture
def ends(node: NodeProcess, remote: Mosquitto) -> Iterator[dict[str, tuple[Client, Client]]]:
    """(who publishes, who receives) of each direction."""
    with Client(node.port) as a, Client(node.port) as b, Client(remote.port) as c, Client(remote.port) as d:
        yield {"push": (a, d), "pull": (c, b)}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_part_of_the_pipeline_costs_no_message(
    node: NodeProcess, ends: dict[str, tuple[Client, Client]], victim: str
) -> None:
    streams: list[tuple[Stream, Client]] = []
    for direction, (source, target) in ends.items():
        target.subscribe(f"kill/{direction}/#")
        for qos in (1, 2):
            topic = f"kill/{direction}/{victim.replace(' ', '-')}/{qos}"
            streams.append((Stream(source, topic, qos), target))

    def all_past(marks: list[int]) -> bool:
        return all(to.came[stream.topic] > mark for (stream, to), mark in zip(streams, marks, strict=True))

    until(lambda: all_past([100] * 4), "messages flow", detail=node.log)
    starts = node.status()["pipeline"]["starts"]
    for _ in range(ROUNDS.get(victim, 1)):
        process = VICTIMS[victim](node)
        process.kill()
        wait_gone([process])
        sent_by_then = [stream.sent for stream, _ in streams]
        until(lambda marks=sent_by_then: all_past(marks), "messages published after the kill flow", detail=node.log)
    assert (node.status()["pipeline"]["starts"] > starts) == (victim in NEW_DRIVER)
    expected = [list(range(stream.stop())) for stream, _ in streams]
    node.wait_drained()
    for target in (ends["push"][1], ends["pull"][1]):
        target.barrier()
    for (stream, target), sent in zip(streams, expected, strict=True):
        assert numbers(target, stream.topic) == sent
    node.wait_ready()


def test_a_killed_node_leaves_no_orphan(node: NodeProcess) -> None:
    family = node.family()
    assert {node.driver(), node.jvm(), node.worker()} <= set(family)
    node.kill()
    wait_gone(family)
