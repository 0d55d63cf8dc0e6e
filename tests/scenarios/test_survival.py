"""What survives a disconnection, and what survives the node: the tables of the bridge's promise, one test a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

COUNT = 40
BACKLOG = 3000
BRIDGES = {"kept": True, "volatile": False}  # their persist
ENGINES = [pytest.param("spark", marks=pytest.mark.spark), "inline"]


class Plant:
    """A node with a bridge that persists and one that does not, and a wire to mosquitto that can be cut."""

    def __init__(self, directory: Path, persistence: dict[str, Any], engine: str = "inline") -> None:
        self.remote = Mosquitto(directory / "remote").start()
        self.wire = Proxy(self.remote.port).open()
        document = {
            "persistence": persistence,
            "pipeline": {"engine": engine},
            "bridges": [
                {
                    "id": name,
                    "host": "127.0.0.1",
                    "port": self.wire.port,
                    "persist": persist,
                    "localSubscriptions": [{"filters": [f"{name}/#"]}],
                }
                for name, persist in BRIDGES.items()
            ],
        }
        self.node = NodeProcess(directory / "node", document).start()

    def go_away(self) -> None:
        """The remote is away, and the node knows it."""
        self.wire.close()
        until(
            lambda: all(bridge["state"] != "connected" for bridge in self.node.status()["bridges"].values()),
            "the bridges notice",
        )

    def come_back(self) -> None:
        self.wire.open()
        self.node.wait_connected()

    def depth(self) -> int:
        status = self.node.status()
        waiting: int = sum(log["waiting"] for log in status["journal"].values())
        return waiting + sum(route["depth"] for route in status["routes"].values())

    def kill(self) -> None:
        """kill -9, and the next life before the way to the remote is open again."""
        self.node.kill()
        self.node.launch()
        self.node.wait_ready()

    def close(self) -> None:
        self.node.close()
        self.wire.close()
        self.remote.stop()


def publish(plant: Plant, phase: str) -> None:
    with Client(plant.node.port) as here:
        here.publish_all(
            [Message(f"{name}/{phase}/{qos}", b"%d" % n, qos) for n in range(COUNT) for name in BRIDGES for qos in (0, 1, 2)]
        )
        here.barrier()  # QoS 0 has no acknowledgement: whatever was sent before this has been taken


class Results:
    """What arrived of each phase: published while the remote was away, and before the node was killed as well."""

    def __init__(self, plant: Plant) -> None:
        with Client(plant.remote.port) as there:
            for name in BRIDGES:
                there.subscribe(f"{name}/#")
            plant.go_away()
            publish(plant, "disconnect")
            plant.come_back()
            there.wait_for(COUNT * 6)
            plant.node.wait_drained()
            plant.go_away()
            publish(plant, "restart")
            plant.kill()
            plant.come_back()
            plant.node.wait_drained()
            self.came = there.barrier()

    def numbers(self, topic: str) -> list[int]:
        return [int(message.payload) for message in self.came if message.topic == topic]

    def qos(self, topic: str) -> set[int]:
        return {message.qos for message in self.came if message.topic == topic}


@pytest.fixture(scope="module", params=["in-memory", "file-native"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Results]]:
    plant = Plant(tmp_path_factory.mktemp(request.param), {"mode": request.param})
    try:
        yield request.param, Results(plant)
    finally:
        plant.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_what_is_published_during_a_disconnection_is_sent_on_reconnect(
    results: tuple[str, Results], bridge: str, qos: int
) -> None:
    topic = f"{bridge}/disconnect/{qos}"
    assert results[1].numbers(topic) == list(range(COUNT))
    assert results[1].qos(topic) == {qos if BRIDGES[bridge] else 0}


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_only_qos_1_and_2_of_a_file_native_node_with_persist_survive_a_restart(
    results: tuple[str, Results], bridge: str, qos: int
) -> None:
    mode, found = results
    survives = mode == "file-native" and BRIDGES[bridge] and qos > 0
    assert found.numbers(f"{bridge}/restart/{qos}") == (list(range(COUNT)) if survives else [])


@pytest.mark.parametrize("engine", ENGINES)
def test_thousands_acknowledged_while_the_remote_is_away_arrive_after_a_kill_in_order_and_once(
    tmp_path: Path, engine: str
) -> None:
    plant = Plant(tmp_path, {"mode": "file-native"}, engine)
    try:
        plant.go_away()
        with Client(plant.node.port) as here:
            here.publish_all([Message(f"kept/{qos}", b"%d" % n, qos) for n in range(BACKLOG) for qos in (1, 2)])
        plant.kill()
        assert plant.depth() == 2 * BACKLOG
        with Client(plant.node.port) as here:  # the new life goes on behind what the old one left
            here.publish_all([Message(f"kept/{qos}", b"%d" % n, qos) for n in range(BACKLOG, BACKLOG + 100) for qos in (1, 2)])
        with Client(plant.remote.port) as there:
            there.subscribe("kept/#")
            plant.come_back()
            there.wait_for(2 * (BACKLOG + 100))
            plant.node.wait_drained()
            there.barrier()
            for qos in (1, 2):
                assert numbers(there, f"kept/{qos}") == list(range(BACKLOG + 100))
    finally:
        plant.close()


def test_a_kill_in_mid_flow_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    plant = Plant(tmp_path, {"mode": "file-native"})
    try:
        with Client(plant.remote.port) as there:
            there.subscribe("kept/#")
            for _ in range(3):
                here = Client(plant.node.port)
                streams = {qos: Stream(here, f"kept/{qos}/{plant.node.pid}", qos) for qos in (1, 2)}
                until(lambda s=streams: all(stream.sent > 200 for stream in s.values()), "messages flow")
                acknowledged = {qos: stream.sent for qos, stream in streams.items()}
                pid = plant.node.pid
                plant.kill()
                here.paho.loop_stop()
                plant.node.wait_connected()
                plant.node.wait_drained()
                there.barrier()
                for qos, sent in acknowledged.items():
                    came = numbers(there, f"kept/{qos}/{pid}")
                    assert set(range(sent)) <= set(came)
                    first = list(dict.fromkeys(came))
                    assert first == sorted(first)
    finally:
        plant.close()


def test_a_clean_stop_keeps_what_waits(tmp_path: Path) -> None:
    plant = Plant(tmp_path, {"mode": "file-native", "sync": False})
    try:
        plant.go_away()
        with Client(plant.node.port) as here:
            here.publish_all([Message("kept/1", b"%d" % n, 1) for n in range(COUNT)])
        plant.node.stop()
        plant.node.launch()
        with Client(plant.remote.port) as there:
            there.subscribe("kept/#")
            plant.come_back()
            there.wait_for(COUNT)
            assert numbers(there, "kept/1") == list(range(COUNT))
    finally:
        plant.close()


def test_a_second_node_on_the_same_directory_says_so_in_one_line_and_ends(tmp_path: Path) -> None:
    plant = Plant(tmp_path, {"mode": "file-native"})
    same = {"dataDir": str(tmp_path / "node" / "data"), "persistence": {"mode": "file-native"}}
    second = NodeProcess(tmp_path / "second", same)
    try:
        with pytest.raises(AssertionError):
            second.launch()
        lines = second.log().splitlines()
        assert [line for line in lines if "is in use by another node" in line] == lines[-1:]
        assert "Traceback" not in second.log()
    finally:
        second.close()
        plant.close()
