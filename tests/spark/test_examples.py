"""The examples do what their samples say: all of them in one node, and one by its command as a user runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark.test_transforms import START, is_starting
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

EXAMPLES = Path(__file__).parents[2] / "examples"


def routes_of(name: str) -> list[dict[str, Any]]:
    document = yaml.safe_load((EXAMPLES / name / "node.yaml").read_text())
    routes: list[dict[str, Any]] = document["bridges"][0]["localSubscriptions"]
    return routes


def messages(name: str, way: str) -> list[tuple[str, bytes]]:
    """Of a sample, in or out; its payloads are text, or bytes."""
    rows = yaml.safe_load((EXAMPLES / name / "sample.yaml").read_text())[way]
    return [(row["topic"], row["payload"] if isinstance(row["payload"], bytes) else row["payload"].encode()) for row in rows]


def by_topic(pairs: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    result: dict[str, list[bytes]] = {}
    for topic, payload in pairs:
        result.setdefault(topic, []).append(payload)
    return result


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node with the routes of all examples, and their files beside its configuration."""
    directory = tmp_path_factory.mktemp("node")
    folders = sorted(path.parent for path in EXAMPLES.glob("*/node.yaml"))
    for file in (file for folder in folders for file in folder.iterdir() if file.suffix in (".sql", ".py", ".csv")):
        shutil.copy(file, directory)
    routes = [route for folder in folders for route in routes_of(folder.name)]
    bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": routes}
    node = NodeProcess(directory, {"persistence": {"mode": "file-native"}, "bridges": [bridge]}).launch()
    node.wait_ready(within=START)
    node.wait_connected()
    until(lambda: not is_starting(node), "every transform has started", START, lambda: node.status()["routes"])
    yield node
    node.stop()


def crossed(node: NodeProcess, remote: Mosquitto, name: str) -> dict[str, list[bytes]]:
    """What comes to the remote of the sample's messages."""
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("#")
        here.publish_all(Message(topic, payload, qos=1) for topic, payload in messages(name, "in"))
        there.wait_for(len(messages(name, "out")))
        node.wait_drained()
        return by_topic([(message.topic, message.payload) for message in there.barrier()])


def test_downsample_makes_one_mean_a_minute_of_each_topic(node: NodeProcess, remote: Mosquitto) -> None:
    came, expected = crossed(node, remote, "downsample"), by_topic(messages("downsample", "out"))
    # Windows that close together come in no order.
    assert {topic: sorted(each) for topic, each in came.items()} == expected


def test_report_by_exception_lets_changes_pass_and_remembers_them(node: NodeProcess, remote: Mosquitto) -> None:
    assert crossed(node, remote, "report-by-exception") == by_topic(messages("report-by-exception", "out"))
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("machines/#")
        topic, last = messages("report-by-exception", "out")[-1]
        here.publish_all([Message(topic, payload, qos=1) for payload in (last, last, b"done")])
        assert [message.payload for message in there.wait_for(1)] == [b"done"]


def test_json_to_columns_converts_units_and_hands_on_what_is_no_json(node: NodeProcess, remote: Mosquitto) -> None:
    assert crossed(node, remote, "json-to-columns") == by_topic(messages("json-to-columns", "out"))


def test_device_table_puts_readings_under_their_place(node: NodeProcess, remote: Mosquitto) -> None:
    assert crossed(node, remote, "device-table") == by_topic(messages("device-table", "out"))


def test_alert_sends_what_is_above_the_limit_to_another_topic_too(node: NodeProcess, remote: Mosquitto) -> None:
    assert crossed(node, remote, "alert") == by_topic(messages("alert", "out"))


def test_sparkplug_makes_a_topic_of_each_metric_and_knows_aliases_from_the_birth(node: NodeProcess, remote: Mosquitto) -> None:
    assert crossed(node, remote, "sparkplug") == by_topic(messages("sparkplug", "out"))
    [route] = [each for each in node.routes("b", "push") if each["filters"][0].startswith("spBv1.0")]
    assert route["deadLettered"] == {}


def test_an_example_runs_by_one_command_and_ends_by_itself() -> None:
    done = subprocess.run(
        [EXAMPLES / "run", "json-to-columns"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line.startswith(" out")]
    assert [(topic, text.encode()) for _, topic, text in shown] == messages("json-to-columns", "out")


def test_a_name_that_is_no_example_is_told_those_that_are() -> None:
    done = subprocess.run(
        [EXAMPLES / "run", "nothing"], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "downsample" in done.stderr
