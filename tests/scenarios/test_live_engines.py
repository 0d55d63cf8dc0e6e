"""Engines that change while a node runs: what waited for the old one goes along, in order, nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

API = "/api/v1/management/bridges"
COUNT = 100
STUCK = {"engine": "spark", "conf": {"spark.driver.memory": "a lot"}}
"""A Spark that cannot start leaves every row in its log."""


class Stuck:
    """The bridge ``b`` has the routes one/# and two/#, on a Spark that does not come."""

    def __init__(self, directory: Path, remote: Mosquitto) -> None:
        self.remote = remote
        self.name = directory.name
        document = {"persistence": {"mode": "file-native"}, "pipeline": STUCK, "bridges": [self.bridge({}, {})]}
        self.node = NodeProcess(directory / "node", document).launch()
        until(lambda: "listeners do not accept yet" not in self.node.readiness()[1], "clients may come")

    def bridge(self, one: dict[str, Any] | None, two: dict[str, Any] | None) -> dict[str, Any]:
        rules = [{"filters": [f"{name}/#"], **rule} for name, rule in (("one", one), ("two", two)) if rule is not None]
        client = f"{self.name}-b"
        return {"id": "b", "clientId": client, "host": "127.0.0.1", "port": self.remote.port, "localSubscriptions": rules}

    def change(self, one: dict[str, Any] | None, two: dict[str, Any] | None, query: str = "") -> None:
        assert self.node.ask("PUT", f"{API}/b{query}", self.bridge(one, two)) == (200, None)

    def publish(self, first: int = 0) -> None:
        with Client(self.node.port) as here:
            texts = [str(number).encode() for number in range(first, first + COUNT)]
            here.publish_all(Message(f"{name}/x", text, qos=1) for text in texts for name in ("one", "two"))

    def waiting(self) -> dict[str, int]:
        return {name: log["waiting"] for name, log in self.node.status()["journal"].items() if log["waiting"]}


@pytest.fixture
def stuck(tmp_path: Path, remote: Mosquitto) -> Iterator[Stuck]:
    found = Stuck(tmp_path, remote)
    yield found
    found.node.close()


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]


def test_rows_that_waited_for_spark_are_delivered_when_their_routes_become_inline(stuck: Stuck) -> None:
    stuck.publish()
    until(lambda: stuck.waiting() == {"shared": 2 * COUNT}, "all wait for Spark")
    with Client(stuck.remote.port) as there:
        there.subscribe("one/#")
        there.subscribe("two/#")
        stuck.change({"engine": "inline"}, {})
        there.wait_until(lambda _: there.came["one/x"] == COUNT, "what waited has come")
        stuck.publish(first=COUNT)
        there.wait_until(lambda _: there.came["one/x"] == 2 * COUNT, "and what came since")
        assert stuck.waiting() == {"shared": COUNT}  # of the other route, from after the change
        stuck.change({"engine": "inline"}, {"engine": "inline"})
        there.wait_until(lambda _: there.came["two/x"] == 2 * COUNT, "the other one, too")
        topics = there.topics()
    assert {topic: numbers(payloads) for topic, payloads in topics.items()} == {
        "one/x": list(range(2 * COUNT)),
        "two/x": list(range(2 * COUNT)),
    }
    until(lambda: stuck.node.readiness()[0] == 200, "without a route on Spark nobody waits for it")
    assert stuck.node.get("/api/v1/audit")[1]["faults"] == []


def test_a_purge_takes_what_waits_for_spark_too_and_nothing_of_another_route(stuck: Stuck) -> None:
    stuck.publish()
    until(lambda: stuck.waiting() == {"shared": 2 * COUNT}, "all wait for Spark")
    with Client(stuck.remote.port) as there:
        there.subscribe("one/#")
        there.subscribe("two/#")
        stuck.change(None, {}, "?purge=true")
        assert stuck.node.status()["removedRoutes"] == {}
        there.wait_until(lambda _: there.came["two/x"] == COUNT, "what the node has moved on has come")
        stuck.change({"engine": "inline"}, {"engine": "inline"})
        stuck.publish(first=COUNT)
        there.wait_until(lambda _: there.came["one/x"] == COUNT and there.came["two/x"] == 2 * COUNT, "all has come")
        topics = there.topics()
    assert numbers(topics["one/x"]) == list(range(COUNT, 2 * COUNT))
    assert numbers(topics["two/x"]) == list(range(2 * COUNT))
    assert stuck.node.get("/api/v1/audit")[1]["faults"] == []


def test_a_route_that_gets_a_query_of_its_own_takes_along_what_waited(stuck: Stuck) -> None:
    stuck.publish()
    until(lambda: stuck.waiting() == {"shared": 2 * COUNT}, "all wait for Spark")
    stuck.change({"transform": {"sql": "SELECT * FROM messages"}}, {})
    (own,) = (route for route in stuck.waiting() if route != "shared")
    assert stuck.waiting()[own] == COUNT
    stuck.change({}, {})  # and without it again: it is the node that moves them on
    until(lambda: stuck.node.routes("b", "push")[0]["delivered"] == COUNT, "what waited there is delivered")
    assert stuck.node.get("/api/v1/audit")[1]["faults"] == []


def test_a_route_that_comes_back_inline_takes_along_what_waited_for_spark_when_it_was_removed(stuck: Stuck) -> None:
    stuck.publish()
    until(lambda: stuck.waiting() == {"shared": 2 * COUNT}, "all wait for Spark")
    stuck.change(None, {})
    assert stuck.waiting() == {"shared": 2 * COUNT}
    with Client(stuck.remote.port) as there:
        there.subscribe("one/#")
        stuck.change({"engine": "inline"}, {})
        there.wait_for(COUNT)
        assert numbers(there.topics()["one/x"]) == list(range(COUNT))
    assert stuck.node.get("/api/v1/audit")[1]["faults"] == []
