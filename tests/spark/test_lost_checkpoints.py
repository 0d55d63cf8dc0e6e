"""A checkpoint that is lost: a query without a memory goes on, one with a memory rebuilds it from the retained journal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

MODULE = '''
from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def once(messages: DataFrame) -> DataFrame:
    return messages.dropDuplicates(["payload"])


def counted(messages: DataFrame) -> DataFrame:
    timed = messages.selectExpr("timestamp_seconds(cast(cast(payload as string) as bigint)) at")
    counts = timed.withWatermark("at", "0 seconds").groupBy(f.window("at", "10 seconds")).count()
    return counts.selectExpr("'counted/a' topic", "concat_ws(':', unix_seconds(window.start), count) payload")


def loud(messages: DataFrame) -> DataFrame:
    return messages.selectExpr("topic", "concat(cast(payload as string), '!') payload", "journal_offset")
'''


ROUTES = ("once", "counted", "loud")


class Plant:
    """Three routes with a transform: one remembers every payload it has seen, one counts by windows, one has no memory."""

    def __init__(self, directory: Path, **journal: Any) -> None:
        self.remote = Mosquitto(directory / "remote").start()
        home = directory / "node"
        home.mkdir()
        (home / "plant.py").write_text(MODULE)
        routes = [{"filters": [f"{name}/#"], "transform": {"python": f"plant:{name}"}} for name in ROUTES]
        document = {
            "persistence": {"mode": "file-native"},
            "journal": journal,
            "pipeline": {"engine": "spark", "master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "1"}},
            "bridges": [{"id": "b", "host": "127.0.0.1", "port": self.remote.port, "localSubscriptions": routes}],
        }
        self.node = NodeProcess(home, document).start()
        self.received = Client(self.remote.port)
        self.received.subscribe("#")

    def publish(self, payloads: str, times: list[int]) -> None:
        messages = [Message(f"{name}/a", payload.encode(), 1) for payload in payloads for name in ("once", "loud")]
        messages += [Message("counted/a", str(time).encode(), 1) for time in times]
        with Client(self.node.port) as device:
            device.publish_all(messages)
        until(
            lambda: all(route["waiting"] == route["depth"] == 0 for route in self.node.routes("b", "push")),
            "everything is delivered",
            detail=self.node.log,
        )

    def lose_checkpoints(self) -> None:
        self.node.stop()
        lost = self.node.directory / "data" / "spark-checkpoints"
        assert any(lost.iterdir())
        shutil.rmtree(lost)
        self.node.start()

    def came(self, name: str) -> list[str]:
        return [payload.decode() for payload in self.received.topics().get(f"{name}/a", [])]

    def state_lost(self) -> dict[str, int] | None:
        journal = self.node.status()["journal"]
        [log] = [journal[route["id"]] for route in self._routes() if route["filters"] == ["once/#"]]
        found: dict[str, int] | None = log["stateLost"]
        return found

    def _routes(self) -> list[dict[str, Any]]:
        return [{"id": name, **route} for name, route in self.node.status()["routes"].items()]

    def close(self) -> None:
        self.received.close()
        self.node.close()
        self.remote.stop()


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    plant = Plant(tmp_path, retain={"hours": 1})
    yield plant
    plant.close()


def test_a_memory_is_rebuilt_and_nothing_comes_twice(plant: Plant) -> None:
    plant.publish("aba", [1, 9, 3])
    plant.publish("cb", [12, 14])
    plant.received.wait_until(lambda _: plant.came("counted") == ["0:3"], "the first window closes without further messages")
    assert plant.came("once") == ["a", "b", "c"]
    plant.lose_checkpoints()
    plant.publish("bda", [25])
    plant.received.wait_until(lambda _: plant.came("counted")[-1:] == ["10:2"], "so does the second one")
    assert plant.came("counted") == ["0:3", "10:2"], "each once, with all that was counted before"
    assert plant.came("once") == ["a", "b", "c", "d"], "it remembers what it saw before"
    assert plant.came("loud") == [f"{payload}!" for payload in "abacbbda"]
    assert plant.state_lost() is None
