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
