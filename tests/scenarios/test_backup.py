"""A backup of a running node, taken under traffic; the node is killed, and its backup runs elsewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.client import Client
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.stream import Stream, numbers
from support.waiting import free_ports, until

pytestmark = pytest.mark.mosquitto


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def document(remote: int) -> dict[str, Any]:
    return {
        "persistence": {"mode": "file-native"},
        "pipeline": {"engine": "inline"},
        "bridges": [{"id": "b", "host": "127.0.0.1", "port": remote, "localSubscriptions": [{"filters": ["b/#"]}]}],
    }


def launched(directory: Path, remote: int) -> NodeProcess:
    node = NodeProcess(directory, document(remote)).launch()
    node.wait_ready()
    return node


def test_what_was_acknowledged_before_the_backup_and_not_delivered_arrives_from_it(tmp_path: Path) -> None:
    [away] = free_ports(1)
    node = launched(tmp_path / "one", away)
    backup = tmp_path / "backup"
    with Client(node.port) as one, Client(node.port) as two:
        streams = [Stream(one, "b/1", 1), Stream(two, "b/2", 2)]
        until(lambda: all(stream.sent > 200 for stream in streams), "messages flow")
        before = [stream.sent for stream in streams]
        taken = command("backup", "-c", node.file, backup)
        assert taken.returncode == 0, taken.stderr
        assert "node edge as of" in taken.stdout
        after = [stream.sent for stream in streams]
        until(lambda: all(stream.sent > mark for stream, mark in zip(streams, after, strict=True)), "the node goes on")
        for stream in streams:
            stream.stop()
    refused = command("backup", "-c", node.file, backup)
    assert (refused.returncode, "exists already" in refused.stderr) == (1, True), refused.stderr
    refused = command("restore", "-c", node.file, backup, "--replace")
    assert (refused.returncode, "in use by another node: stop it first" in refused.stderr) == (1, True), refused.stderr
    node.kill()

    remote = Mosquitto(tmp_path / "remote").start()
    second = NodeProcess(tmp_path / "two", document(remote.port))
    brought = command("restore", "-c", second.file, backup)
    assert brought.returncode == 0, brought.stderr
    with Client(remote.port) as there:
        there.subscribe("b/#")
        second.start()
        second.wait_drained()
        there.barrier()
        for topic, mark in zip(("b/1", "b/2"), before, strict=True):
            got = numbers(there, topic)
            assert got == list(range(len(got))), "one moment: no gap, nothing twice, in order"
            assert len(got) >= mark
    second.close()
    remote.stop()


def test_a_stopped_node_is_backed_up_from_its_directory(tmp_path: Path) -> None:
    [away] = free_ports(1)
    node = launched(tmp_path / "one", away)
    with Client(node.port) as here:
        stream = Stream(here, "b/1", 1)
        until(lambda: stream.sent >= 50, "messages flow")
        sent = stream.stop()
    node.stop()
    taken = command("backup", "-c", node.file, tmp_path / "backup")
    assert taken.returncode == 0, taken.stderr
    refused = command("restore", "-c", node.file, tmp_path / "backup")
    assert (refused.returncode, "--replace" in refused.stderr) == (1, True), refused.stderr
    brought = command("restore", "-c", node.file, tmp_path / "backup", "--replace")
    assert brought.returncode == 0, brought.stderr
    node.launch()
    node.wait_ready()
    assert sum(route["depth"] for route in node.status()["routes"].values()) == sent
    node.close()


def test_a_node_in_memory_has_nothing_to_back_up(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}})
    refused = command("backup", "-c", node.file, tmp_path / "backup")
    assert (refused.returncode, "in-memory" in refused.stderr) == (1, True), refused.stderr
