"""The matrix of persist and QoS: applied QoS, queued, tracked, sent again, on disk; one test a row, in both directions.

| persist | QoS | applied | queued | tracked | sent again | on disk |
|---------|-----|---------|--------|---------|------------|---------|
| true    | 0   | 0       | yes    | no      | no         | no      |
| true    | 1   | 1       | yes    | yes     | yes        | yes     |
| true    | 2   | 2       | yes    | yes     | yes        | yes     |
| false   | any | 0       | yes    | no      | no         | no      |

On disk only in file-native mode. Pulled messages wait at the remote, and it is the remote that tracks them and sends them again
until the node has acknowledged: by the QoS they were published with, whatever the bridge's persist says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import until

pytestmark = pytest.mark.mosquitto

COUNT = 5
BRIDGES = {"kept": True, "volatile": False}  # their persist
QOS = (0, 1, 2)


class Row(NamedTuple):
    """What happened to the messages of one row."""

    applied: set[int]
    queued: int
    tracked: int
    sent_again: int
    on_disk: bool


class Plant:
    """A bridge that persists and one that does not, a route for each QoS, and a wire on which everything can be lost."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.remote = Mosquitto(directory / "remote").start()
        self.wire = Proxy(self.remote.port).open()
        self.node = NodeProcess(
            directory / "node",
            {
                "persistence": {"mode": mode},
                "pipeline": {"engine": "inline"},
                "bridges": [self._bridge(name) for name in BRIDGES],
            },
        ).start()

    def _bridge(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "host": "127.0.0.1",
            "port": self.wire.port,
            "persist": BRIDGES[name],
            "localSubscriptions": [{"filters": [f"{name}/push/{qos}/#"]} for qos in QOS],
            "remoteSubscriptions": [{"filters": [f"{name}/pull/{qos}/#"]} for qos in QOS],
        }

    def push(self, name: str, qos: int) -> dict[str, Any]:
        return self.node.routes(name, "push")[qos]

    def go_away(self) -> None:
        self.wire.close()
        until(lambda: not any(b["state"] == "connected" for b in self.node.status()["bridges"].values()), "they notice")

    def come_back(self) -> None:
        self.wire.heal()
        self.wire.open()
        self.node.wait_connected()
        self.node.wait_drained()

    def files(self) -> bytes:
        """Everything the node has written."""
        return b"".join(path.read_bytes() for path in (self.node.directory / "data").rglob("*") if path.is_file())

    def close(self) -> None:
        self.wire.heal()
        self.node.close()
        self.wire.close()
        self.remote.stop()


def payload(way: str, phase: str, name: str, qos: int) -> bytes:
    return f"<{way} {phase} {name} {qos}>".encode()


class Results:
    """Every row of one mode: each phase is one journey of the messages of all rows."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._queued: dict[tuple[str, str, int], int] = {}
        self._tracked: dict[tuple[str, str, int], int] = {}
        with Client(plant.node.port) as here, Client(plant.remote.port) as there:
            for name in BRIDGES:
                here.subscribe(f"{name}/pull/#")
                there.subscribe(f"{name}/push/#")
            ends = {"push": here, "pull": there}
            self._calm(ends)
            self._away(ends)
            self._lost(ends)
            here.barrier()
            there.barrier()
            self._came = {"push": list(there.messages), "pull": list(here.messages)}
            self._files = plant.files()

    def _publish(self, ends: dict[str, Client], phase: str) -> None:
        for way, client in ends.items():
            client.publish_all(
                Message(f"{name}/{way}/{qos}/{phase}", payload(way, phase, name, qos), qos)
                for _ in range(COUNT)
                for name in BRIDGES
                for qos in QOS
            )
            client.barrier()  # QoS 0 has no acknowledgement: what was sent before this has been taken

    def _calm(self, ends: dict[str, Client]) -> None:
        self._publish(ends, "calm")
        for way, other in (("push", ends["pull"]), ("pull", ends["push"])):
            other.wait_until(
                lambda messages, way=way: sum(f"/{way}/" in m.topic for m in messages) == COUNT * 6,  # type: ignore[misc]
                "all cross",
            )

    def _away(self, ends: dict[str, Client]) -> None:
        """While the remote is away, everything pushed is queued."""
        self._plant.go_away()
        self._publish(ends, "away")
        for name in BRIDGES:
            for qos in QOS:
                self._queued["push", name, qos] = self._plant.push(name, qos)["depth"]
        self._plant.come_back()

    def _lost(self, ends: dict[str, Client]) -> None:
        """Sent into a hole, then the connection ends: who keeps a marker still has them."""
        plant = self._plant
        plant.wire.hole()
        self._publish(ends, "lost")

        def left(name: str, qos: int) -> bool:
            route = plant.push(name, qos)
            return bool(route["delivered"] + route["inFlight"] == 3 * COUNT)

        until(lambda: all(left(name, qos) for name in BRIDGES for qos in QOS), "all are on the wire")
        for name in BRIDGES:
            for qos in QOS:
                self._tracked["push", name, qos] = plant.push(name, qos)["inFlight"]
        plant.go_away()
        plant.come_back()

    def row(self, way: str, name: str, qos: int) -> Row:
        def came(phase: str) -> list[Message]:
            return [m for m in self._came[way] if m.topic == f"{name}/{way}/{qos}/{phase}"]

        # The remote's own queue holds what is pulled while the node is away, and shows no number for it.
        queued = self._queued[way, name, qos] if way == "push" else len(came("away"))
        tracked = self._tracked[way, name, qos] if way == "push" else len(came("lost"))
        on_disk = [payload(way, phase, name, qos) in self._files for phase in ("calm", "lost")]
        arrived = [m for phase in ("calm", "away", "lost") for m in came(phase)]
        assert len(came("calm")) == COUNT
        return Row({m.qos for m in arrived}, queued, tracked, len(came("lost")), any(on_disk))


@pytest.fixture(scope="module", params=["in-memory", "file-native"])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Results]]:
    plant = Plant(tmp_path_factory.mktemp(request.param), request.param)
    try:
        yield request.param, Results(plant)
    finally:
        plant.close()


@pytest.mark.parametrize("qos", QOS)
@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_pushed_message_is_kept_as_persist_and_its_qos_say(
    results: tuple[str, Results], bridge: str, qos: int
) -> None:
    mode, found = results
    applied = qos if BRIDGES[bridge] else 0
    tracked = COUNT if applied else 0
    on_disk = mode == "file-native" and applied > 0
    assert found.row("push", bridge, qos) == Row({applied}, COUNT, tracked, tracked, on_disk)


@pytest.mark.parametrize("qos", QOS)
@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_pulled_message_is_kept_as_persist_and_its_qos_say(
    results: tuple[str, Results], bridge: str, qos: int
) -> None:
    mode, found = results
    applied = qos if BRIDGES[bridge] else 0
    held_by_remote = COUNT if qos else 0
    on_disk = mode == "file-native" and applied > 0
    assert found.row("pull", bridge, qos) == Row({applied}, held_by_remote, held_by_remote, held_by_remote, on_disk)
