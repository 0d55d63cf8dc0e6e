"""A route whose transform changes between two lives: what waited runs through the new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark.test_transforms import START, numbers
from support.client import Client
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

COUNT = 100
STUCK = {"conf": {"spark.driver.memory": "a lot"}}
"""A Spark that cannot start leaves every row in its log."""


def test_rows_that_waited_run_through_the_transform_that_the_route_has_got(tmp_path: Path) -> None:
    remote = Mosquitto(tmp_path / "remote").start()

    def node(pipeline: dict[str, Any], **rule: Any) -> NodeProcess:
        rules = [{"filters": ["t/#"], **rule}, {"filters": ["plain/#"]}]
        bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": rules}
        return NodeProcess(
            tmp_path / "node", {"persistence": {"mode": "file-native"}, "pipeline": pipeline, "bridges": [bridge]}
        )

    stuck = node(STUCK).launch()
    until(lambda: "listeners do not accept yet" not in stuck.readiness()[1], "clients may come")
    with Client(stuck.port) as here:
        here.publish_all([*numbers("t/one", COUNT), *numbers("plain/one", COUNT)])
    stuck.kill()
    with Client(remote.port) as there:
        there.subscribe("#")
        changed = node({}, transform={"sql": "SELECT topic, concat('n', string(payload)) AS payload FROM messages"}).launch()
        there.wait_for(2 * COUNT, within=START)
        changed.wait_drained()
        code, account = changed.get("/api/v1/audit")
        changed.stop()
    assert there.topics() == {
        "t/one": [b"n%d" % i for i in range(COUNT)],
        "plain/one": [b"%d" % i for i in range(COUNT)],
    }
    assert (code, account["faults"]) == (200, [])
    remote.stop()
