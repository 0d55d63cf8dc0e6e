"""Routes on Spark that change while it runs: its driver stays, and every message is transformed and delivered once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark.test_transforms import START
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

API = "/api/v1/management/bridges"


@contextmanager
def steady(port: int, *topics: str) -> Iterator[list[int]]:
    """A device that publishes numbers to all of these topics for as long as this lasts; how many so far."""
    ended, count = threading.Event(), [0]

    def publish() -> None:
        with Client(port) as device:
            while not ended.wait(0.02):
                device.publish_all(Message(topic, str(count[0]).encode(), qos=1) for topic in topics)
                count[0] += 1

    thread = threading.Thread(target=publish)
    thread.start()
    yield count
    ended.set()
    thread.join()


def test_a_changed_set_of_routes_reaches_the_running_spark_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    remote = Mosquitto(tmp_path / "remote").start()

    def bridge(name: str, **rule: Any) -> dict[str, Any]:
        rules = [{"filters": [f"{name}/#"], **rule}]
        return {"id": name, "host": "127.0.0.1", "port": remote.port, "localSubscriptions": rules}

    node = NodeProcess(tmp_path / "node", {"persistence": {"mode": "file-native"}, "bridges": [bridge("a"), bridge("b")]})
    node.launch()
    node.wait_ready(START)
    driver = node.driver().pid
    with Client(remote.port) as there:
        there.subscribe("#")
        with steady(node.port, "a/x", "b/x", "c/x") as count:
            until(lambda: there.came["a/x"] > 5, "messages come")
            assert node.ask("POST", API, bridge("c")) == (200, None)
            added = count[0]
            until(lambda: there.came["c/x"] > 5, "those of the new bridge, too", START)
            sql = "SELECT topic, qos, CAST(concat('n', string(payload)) AS BINARY) AS payload FROM messages"
            assert node.ask("PUT", f"{API}/b", bridge("b", transform={"sql": sql})) == (200, None)
            until(lambda: any(each.payload.startswith(b"n") for each in there.messages), "they are transformed", START)
            assert node.ask("PUT", f"{API}/b", bridge("b", engine="inline")) == (200, None)
            assert node.ask("DELETE", f"{API}/a") == (200, None)
            removed = count[0]
            until(lambda: count[0] > removed + 20, "the others go on")
            assert node.ask("POST", API, bridge("a")) == (200, None)
            again = count[0]
            until(lambda: count[0] > again + 20, "all of them again")
        total = count[0]
        node.wait_drained()
        until(lambda: there.came["b/x"] >= total, "all have come", detail=node.log)
        there.barrier()
        assert node.driver().pid == driver
        assert node.get("/api/v1/audit")[1]["faults"] == []
        node.stop()
        topics = there.topics()
    assert [int(payload.removeprefix(b"n")) for payload in topics["b/x"]] == list(range(total))
    transformed = [payload.startswith(b"n") for payload in topics["b/x"]]
    first, rows = transformed.index(True), sum(transformed)
    assert all(transformed[first : first + rows])  # all that came in that time, and no other
    since_added = [int(payload) for payload in topics["c/x"]]
    assert since_added == list(range(since_added[0], total))
    assert since_added[0] <= added + 1
    while_there = [int(payload) for payload in topics["a/x"]]
    gone = next(number for number in while_there if number + 1 not in while_there)
    assert while_there == [*range(gone + 1), *range(while_there[gone + 1], total)]
    remote.stop()
