"""A route that changes its engine between two lives takes along what waited for the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import accepts, until

pytestmark = pytest.mark.mosquitto

COUNT = 200


def test_rows_that_waited_for_spark_are_delivered_by_a_node_that_runs_inline(tmp_path: Path) -> None:
    remote = Mosquitto(tmp_path / "remote").start()

    def node(pipeline: dict[str, Any]) -> NodeProcess:
        bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["t/#"]}]}
        document = {"persistence": {"mode": "file-native"}, "pipeline": pipeline, "bridges": [bridge]}
        return NodeProcess(tmp_path / "node", document)

    # A Spark that cannot start leaves every row in its log.
    stuck = node({"engine": "spark", "conf": {"spark.driver.memory": "a lot"}}).launch()
    until(lambda: stuck.status()["bridges"]["b"]["state"] == "connected", "the bridge is connected")
    with Client(stuck.port) as here:
        here.publish_all(Message("t/one", str(i).encode(), qos=1) for i in range(COUNT))
    assert stuck.status()["journal"]["shared"]["waiting"] == COUNT
    stuck.kill()
    with Client(remote.port) as there:
        there.subscribe("t/#")
        inline = node({"engine": "inline"}).start()
        arrived = there.wait_for(COUNT)
        inline.stop()
    assert [int(message.payload) for message in arrived] == list(range(COUNT))
    remote.stop()


def test_what_was_promised_before_persist_was_switched_off_is_kept_and_sent_as_promised(tmp_path: Path) -> None:
    remote = Mosquitto(tmp_path / "remote")

    def node(pipeline: dict[str, Any], *, persist: bool) -> NodeProcess:
        route = {"filters": ["t/#"]}
        bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "persist": persist, "localSubscriptions": [route]}
        return NodeProcess(
            tmp_path / "node", {"persistence": {"mode": "file-native"}, "pipeline": pipeline, "bridges": [bridge]}
        )

    stuck = node({"engine": "spark", "conf": {"spark.driver.memory": "a lot"}}, persist=True).launch()
    until(lambda: "listeners do not accept yet" not in stuck.readiness()[1], "clients may come")
    with Client(stuck.port) as here:
        here.publish_all(Message("t/one", str(i).encode(), qos=1) for i in range(COUNT))
    stuck.kill()
    off = node({"engine": "inline"}, persist=False).launch()
    until(lambda: "listeners do not accept yet" not in off.readiness()[1], "it runs")
    until(lambda: off.routes("b", "push")[0]["depth"] == COUNT, "they are in the outbox")
    off.kill()
    remote.start()
    with Client(remote.port) as there:
        there.subscribe("t/#", qos=1)
        again = node({"engine": "inline"}, persist=False).start()
        arrived = there.wait_for(COUNT)
        until(lambda: again.routes("b", "push")[0]["delivered"] == COUNT, "all are acknowledged")
        status = again.routes("b", "push")[0]
        again.stop()
    assert [(int(message.payload), message.qos) for message in arrived] == [(i, 1) for i in range(COUNT)]
    assert (status["received"], status["consumed"], status["droppedBefore"]) == (COUNT, COUNT, {})
    remote.stop()


def test_what_is_published_right_after_the_start_does_not_overtake_what_waited_for_another_engine(
    tmp_path: Path, remote: Mosquitto
) -> None:
    def node(name: str, made: dict[str, Any], plain: dict[str, Any]) -> NodeProcess:
        """Two routes change, another one stays with a Spark that cannot start."""
        rules = [{"filters": ["made/#"], **made}, {"filters": ["plain/#"], **plain}, {"filters": ["other/#"]}]
        bridge = {"id": "order", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": rules}
        pipeline = {"engine": "spark", "conf": {"spark.driver.memory": "a lot"}}
        document = {"persistence": {"mode": "file-native"}, "pipeline": pipeline, "bridges": [bridge]}
        started = NodeProcess(tmp_path / name, {"dataDir": str(tmp_path / "data"), **document}).launch()
        until(lambda: accepts(started.port), "clients may come")
        return started

    def publish(to: NodeProcess, numbers: range, *topics: str) -> None:
        with Client(to.port) as here:
            here.publish_all(Message(topic, str(i).encode(), qos=1) for i in numbers for topic in topics)

    stuck = node("stuck", {"transform": {"sql": "SELECT * FROM messages"}}, {})
    publish(stuck, range(COUNT), "made/one", "plain/one", "other/one")
    stuck.kill()
    with Client(remote.port) as there:
        there.subscribe("made/#")
        there.subscribe("plain/#")
        inline = node("inline", {"engine": "inline"}, {"engine": "inline"})
        publish(inline, range(COUNT, 2 * COUNT), "made/one", "plain/one")
        there.wait_for(4 * COUNT)
        assert inline.get("/api/v1/audit")[1]["faults"] == []
        inline.stop()
        arrived = {topic: [int(payload) for payload in payloads] for topic, payloads in there.topics().items()}
    assert arrived == {"made/one": list(range(2 * COUNT)), "plain/one": list(range(2 * COUNT))}
