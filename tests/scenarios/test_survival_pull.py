"""What survives on the way from the remote into the node: a disconnection, a restart, a kill with rows in the journal.

What the node has not acknowledged waits at the remote, in the session of the bridge: QoS 1 and 2 come after a restart in either
mode. What the node has acknowledged it keeps as the mode and the bridge's persist say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess, wait_gone
from support.proxy import Proxy
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

COUNT = 40
BRIDGES = {"kept": True, "volatile": False}  # their persist
MODES = ("in-memory", "file-native")


def document(port: int, mode: str, **pipeline: Any) -> dict[str, Any]:
    """Bridges that pull, and one that sends back whatever they brought: seen from the remote, no subscriber here is needed."""
    address = {"host": "127.0.0.1", "port": port}
    pulls = [
        {"id": name, "persist": persist, "remoteSubscriptions": [{"filters": [f"{name}/#"]}], **address}
        for name, persist in BRIDGES.items()
    ]
    back = [{"filters": [f"{name}/#"], "destination": "back/{#}"} for name in BRIDGES]
    mirror = {"id": "mirror", "loopPreventionHopCount": 2, "localSubscriptions": back, **address}
    return {"persistence": {"mode": mode}, "pipeline": {"engine": "inline", **pipeline}, "bridges": [*pulls, mirror]}


def publish(port: int, phase: str) -> None:
    with Client(port) as there:
        there.publish_all(
            [Message(f"{name}/{phase}/{qos}", b"%d" % n, qos) for n in range(COUNT) for name in BRIDGES for qos in (0, 1, 2)]
        )
        there.barrier()


class Results:
    """What came of each phase: published while the wire was cut, and while the node was dead."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.remote = Mosquitto(directory / "remote").start()
        self.wire = Proxy(self.remote.port).open()
        self.node = NodeProcess(directory / "node", document(self.wire.port, mode)).start()
        self.wire.close()
        until(lambda: not any(b["state"] == "connected" for b in self.node.status()["bridges"].values()), "they notice")
        publish(self.remote.port, "disconnect")
        self.came = self._pulled(COUNT * 4)
        self.wire.close()
        self.node.kill()
        publish(self.remote.port, "restart")
        self.node.launch()
        self.node.wait_ready()
        self.came += self._pulled(COUNT * 4)

    def _pulled(self, count: int) -> list[Message]:
        """What a local subscriber gets when the way is open again."""
        with Client(self.node.port) as here:
            for name in BRIDGES:
                here.subscribe(f"{name}/#")
            self.wire.open()
            here.wait_for(count)
            self.node.wait_drained()
            return here.barrier()

    def close(self) -> None:
        self.node.close()
        self.wire.close()
        self.remote.stop()


@pytest.fixture(scope="module", params=MODES)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    results = Results(tmp_path_factory.mktemp(request.param), request.param)
    yield results
    results.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("phase", ["disconnect", "restart"])
def test_what_the_remote_held_meanwhile_is_pulled_once_and_in_order(
    results: Results, phase: str, bridge: str, qos: int
) -> None:
    came = [message for message in results.came if message.topic == f"{bridge}/{phase}/{qos}"]
    # A remote keeps QoS 0 for nobody who is away: that is not the node's to keep.
    assert [int(message.payload) for message in came] == (list(range(COUNT)) if qos else [])
    assert {message.qos for message in came} <= {qos if BRIDGES[bridge] else 0}


@pytest.fixture
def own_remote(tmp_path: Path) -> Iterator[Mosquitto]:
    remote = Mosquitto(tmp_path / "remote").start()
    yield remote
    remote.stop()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Lives of one node: all on the same directory."""
    made: list[NodeProcess] = []

    def make(document: dict[str, Any], environment: dict[str, str] | None = None) -> NodeProcess:
        made.append(NodeProcess(tmp_path / "node", document, environment))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def java_that_never_answers(tmp_path: Path) -> Path:
    """A Java that knows its version and does nothing else: the Spark that waits for it leaves every row in its log."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text('#!/bin/sh\ncase "$*" in *-version*) echo \'openjdk version "21"\';; *) exec sleep 600;; esac\n')
    script.chmod(0o755)
    return home


@pytest.mark.parametrize("mode", MODES)
def test_of_pulled_rows_in_the_journal_a_kill_leaves_qos_1_and_2_of_a_file_native_node_with_persist(
    own_remote: Mosquitto, nodes: Callable[..., NodeProcess], java_that_never_answers: Path, mode: str
) -> None:
    port = own_remote.port
    stuck = nodes(document(port, mode, engine="spark"), {"JAVA_HOME": str(java_that_never_answers)}).launch()
    stuck.wait_connected()
    publish(port, "journal")
    until(lambda: sum(log["waiting"] for log in stuck.status()["journal"].values()) == COUNT * 6, "all are in the journal")
    family = stuck.family()
    stuck.kill()
    wait_gone(family)
    with Client(port) as there:
        there.subscribe("back/#")
        node = nodes(document(port, mode)).start()
        node.wait_drained()
        there.barrier()
        for name, persist in BRIDGES.items():
            for qos in (0, 1, 2):
                kept = mode == "file-native" and persist and qos > 0
                assert numbers(there, f"back/{name}/journal/{qos}") == (list(range(COUNT)) if kept else [])


def test_kills_in_mid_flow_lose_nothing_of_what_is_pulled_and_double_nothing_at_qos_2(
    own_remote: Mosquitto, nodes: Callable[..., NodeProcess]
) -> None:
    node = nodes(document(own_remote.port, "file-native")).start()
    with Client(own_remote.port) as source, Client(own_remote.port) as target:
        target.subscribe("back/#")
        streams = [Stream(source, f"kept/{qos}", qos) for qos in (1, 2)]

        def come(topic: str) -> list[int]:
            return numbers(target, f"back/{topic}")

        for _ in range(2):
            marks = [(stream.topic, stream.sent) for stream in streams]
            until(
                lambda marks=marks: all(len(set(come(topic))) > mark for topic, mark in marks),  # type: ignore[misc]
                "messages flow",
                detail=node.log,
            )
            node.kill()
            node.launch()
        expected = {stream.topic: list(range(stream.stop())) for stream in streams}
        node.wait_ready()
        node.wait_connected()
        target.wait_until(lambda _: all(set(come(topic)) == set(sent) for topic, sent in expected.items()), "all have come")
        node.wait_drained()
        target.barrier()
        assert list(dict.fromkeys(come("kept/1"))) == expected["kept/1"]  # in order, the first time each comes
        assert come("kept/2") == expected["kept/2"]
