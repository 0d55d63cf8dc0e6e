"""A remote with a small inbound window drops QoS 2 messages beyond it and acknowledges them all the same: never send more."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess

MOSQUITTOS_DEFAULT = 20
MESSAGES = 3000


@pytest.mark.mosquitto
@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_a_burst_at_qos_2_into_a_remote_with_mosquittos_default_window_arrives_whole(
    tmp_path: Path, version: int | str
) -> None:
    remote = Mosquitto(tmp_path / "remote", window=MOSQUITTOS_DEFAULT).start()
    node = NodeProcess(
        tmp_path / "node",
        {
            "pipeline": {"engine": "inline"},
            "bridges": [
                {
                    "id": "small",
                    "host": "127.0.0.1",
                    "port": remote.port,
                    "mqttVersion": version,
                    "localSubscriptions": [{"filters": ["burst/#"]}],
                }
            ],
        },
    ).start()
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("burst/#", qos=0)  # the subscriber's own window is not what is tested
        here.publish_all(Message("burst/one", str(i).encode(), qos=2) for i in range(MESSAGES))
        arrived = there.wait_for(MESSAGES)
    assert [int(message.payload) for message in arrived] == list(range(MESSAGES))
    node.stop()
    remote.stop()
