"""A mosquitto's own configuration, and what was imported from it: the same messages arrive on the same topics, both ways."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

DATA = Path(__file__).parents[1] / "data"

OUT = [
    "factory/a", "factory/hall/1/x", "factory//gap", "alarms/fire", "alarms/too/deep", "plain/up", "local/heartbeat",
    "local/heartbeat/more", "prex/y", "prex", "pre/x", "elsewhere",
]  # fmt: skip
IN = [
    "commands/plant-7/go", "commands/plant-7/a/b", "commands/other", "remote/deep/1", "remote/shallow", "plain/down",
    "remote/clock", "sites/plant-7/a",
]  # fmt: skip


class Imported:
    """`bridgehead import mosquitto`: the YAML it writes, and what it says."""

    def __init__(self, file: Path) -> None:
        result = subprocess.run(
            [COMMAND, "import", "mosquitto", str(file)], capture_output=True, text=True, timeout=60, check=False
        )
        assert result.returncode == 0, result.stderr
        self.document = yaml.safe_load(result.stdout)
        self.report = result.stderr


Arrived = list[tuple[str, bytes, int, bool]]


def crossing(local: int, remote: int, subscribed: Callable[[], bool]) -> tuple[Arrived, Arrived]:
    """What arrives on the remote of what is published locally, and the other way round: topic, payload, QoS, retained."""
    with Client(local) as here, Client(remote) as there:
        until(subscribed, "the bridge has subscribed")
        here.subscribe("#")
        there.subscribe("#")
        here.publish_all(Message(topic, f"out {topic} {qos}".encode(), qos) for topic in OUT for qos in (0, 1, 2))
        there.publish_all(Message(topic, f"in {topic} {qos}".encode(), qos) for topic in IN for qos in (0, 1, 2))
        # What left last arrives last; QoS 2 is the slowest of all.
        there.publish_all([Message("commands/plant-7/end", b"in end", 2)])
        here.publish_all([Message("factory/end", b"out end", 2)])
        there.wait_until(lambda found: any(m.topic == "sites/plant-7/end" for m in found), "the last one is there")
        here.wait_until(lambda found: any(m.topic == "inbox/end" for m in found), "the last one is here")
        arrived, came = (
            sorted((m.topic, m.payload, m.qos, m.retain) for m in client.barrier() if m.payload.startswith(way))
            for client, way in ((there, b"out"), (here, b"in"))
        )
    return arrived, came


def test_the_same_messages_arrive_on_the_same_topics_as_through_mosquittos_bridge(tmp_path: Path) -> None:
    remotes = [Mosquitto(tmp_path / name).start() for name in ("theirs", "ours")]
    for remote in remotes:
        with Client(remote.port) as there:
            there.publish_all([Message("commands/plant-7/kept", b"in before", 1, retain=True)])
    rules = (DATA / "mosquitto-prefixes.conf").read_text()
    bridge = rules[rules.index("connection") :].split("\n", 1)

    text = bridge[1].replace("@REMOTE@", str(remotes[0].port))
    local = Mosquitto(tmp_path / "local", connection=f"{bridge[0].split()[1]}\n{text}log_type all").start()
    log = tmp_path / "local" / "mosquitto.log"
    theirs = crossing(local.port, remotes[0].port, lambda: log.read_text().count("SUBACK") >= 4)

    file = tmp_path / "mosquitto.conf"
    file.write_text(rules.replace("@LOCAL@", "1883").replace("@REMOTE@", str(remotes[1].port)))
    document = {key: value for key, value in Imported(file).document.items() if key != "listeners"}
    node = NodeProcess(tmp_path / "node", document).start()
    ours = crossing(node.port, remotes[1].port, lambda: node.bridge("plant")["subscribed"])

    assert ours == theirs
    assert {"sites/plant-7/hall/1/x", "loud/alarms/fire", "subx/y", "plain/up"} < {topic for topic, *_ in ours[0]}
    assert ("inbox/kept", b"in before", 1, True) in ours[1]
    assert {"inbox/a/b", "local/from/deep/1", "local/time", "plain/down"} < {topic for topic, *_ in ours[1]}
    for process in (local, node, *remotes):
        process.stop()
