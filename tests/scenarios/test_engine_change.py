"""A route that changes its engine between two lives takes along what waited for the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

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
