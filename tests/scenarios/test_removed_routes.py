"""A route that is taken out of the file: its messages stay, are shown, and are there when it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

COUNT = 100
ROUTE = {"filters": ["t/#"], "destination": "up/{#}"}
OTHER = {"filters": ["other/#"]}
STUCK = {"engine": "spark", "conf": {"spark.driver.memory": "a lot"}}


@pytest.mark.parametrize("waits_in", ["journal", "outbox"])
def test_messages_of_a_removed_route_stay_until_it_comes_back(tmp_path: Path, waits_in: str) -> None:
    remote = Mosquitto(tmp_path / "remote").start()

    def node(pipeline: dict[str, Any], *routes: dict[str, Any], port: int = remote.port) -> NodeProcess:
        bridge = {"id": "b", "host": "127.0.0.1", "port": port, "localSubscriptions": list(routes)}
        document = {"persistence": {"mode": "file-native"}, "pipeline": pipeline, "bridges": [bridge]}
        return NodeProcess(tmp_path / "node", document)

    # A Spark that cannot start leaves every row in the journal; a remote that is not there leaves it in the outbox.
    first = node(STUCK, ROUTE) if waits_in == "journal" else node({"engine": "inline"}, ROUTE, port=1)
    first.launch()
    until(lambda: "listeners do not accept yet" not in first.readiness()[1], "clients may come")
    with Client(first.port) as here:
        here.publish_all(Message("t/one", str(i).encode(), qos=1) for i in range(COUNT))
    route = next(iter(first.status()["routes"]))
    until(lambda: first.status()["routes"][route]["depth" if waits_in == "outbox" else "waiting"] == COUNT, "all wait")
    first.kill()

    with Client(remote.port) as there:
        there.subscribe("up/#")
        without = node({"engine": "inline"}, OTHER).start()
        until(lambda: without.status()["removedRoutes"][route]["depth"] == COUNT, "they are in the removed route's outbox")
        removed = without.status()["removedRoutes"][route]
        assert (removed["received"], removed["waiting"], removed["dropped"]) == (COUNT, 0, {})
        without.stop()
        assert there.messages == []

        again = node({"engine": "inline"}, ROUTE, OTHER).start()
        arrived = there.wait_for(COUNT)
        until(lambda: again.status()["routes"][route]["delivered"] == COUNT, "all are acknowledged")
        assert again.status()["removedRoutes"] == {}
        again.stop()
    assert [(message.topic, int(message.payload)) for message in arrived] == [("up/t/one", i) for i in range(COUNT)]
    remote.stop()
