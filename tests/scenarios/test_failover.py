"""Two brokers behind one bridge: the next one is taken at once, the one that works is kept, by the node's next life too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def remotes(tmp_path: Path) -> Iterator[list[Mosquitto]]:
    brokers = [Mosquitto(tmp_path / name).start() for name in ("first", "second")]
    yield brokers
    for broker in brokers:
        broker.stop()


def test_a_bridge_moves_to_the_next_host_and_stays_there(remotes: list[Mosquitto], tmp_path: Path) -> None:
    first, second = remotes
    hosts = [{"host": "127.0.0.1", "port": broker.port} for broker in remotes]
    bridge = {"id": "cloud", "hosts": hosts, "localSubscriptions": [{"filters": ["up/#"]}]}
    bridge["remoteSubscriptions"] = [{"filters": ["down/#"]}]
    document = {"pipeline": {"engine": "inline"}, "persistence": {"mode": "file-native"}, "bridges": [bridge]}
    node = NodeProcess(tmp_path / "node", document).start()
    with Client(second.port) as cloud:
        cloud.subscribe("up/#")
        with Client(node.port) as device:
            device.publish_all([Message("up/first", b"", 1)])
            node.wait_drained()
            assert node.bridge("cloud")["remote"] == f"127.0.0.1:{first.port}"
            first.kill()
            device.publish_all([Message(f"up/{qos}", b"%d" % number, qos) for number in range(50) for qos in (0, 1, 2)])
            cloud.wait_for(150)
            node.wait_connected()
            assert node.bridge("cloud")["remote"] == f"127.0.0.1:{second.port}"
            device.subscribe("down/#")
            cloud.publish_all([Message("down/1", b"command", 1)])
            assert device.wait_for(1)[0].payload == b"command"
            first.start()
            connects = node.bridge("cloud")["connects"]
            second.kill()
            second.start()
            until(lambda: node.bridge("cloud")["connects"] > connects, "the bridge is back")
            assert node.bridge("cloud")["remote"] == f"127.0.0.1:{second.port}"
    node.stop()
    node.start()
    assert node.bridge("cloud")["remote"] == f"127.0.0.1:{second.port}"
    node.stop()
    assert cloud.topics() == {f"up/{qos}": [b"%d" % number for number in range(50)] for qos in (0, 1, 2)}
