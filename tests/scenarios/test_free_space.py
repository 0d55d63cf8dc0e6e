"""A disk that is nearly full: publishers are refused before storage fails, what is here goes on, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from bridgehead.storage.freespace import free_bytes
from scenarios.line import Line
from support.client import Client, Message
from support.disk import MIB, SmallDisk
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.mosquitto

COUNT = 100
QUOTA_EXCEEDED = 151
SLACK = 1 << 30
"""Bytes that are free beyond the bound at first: others who use this disk do not get near it."""


class Disk:
    """The disk that tests run on, as full as a test wants it."""

    def __init__(self, directory: Path) -> None:
        self.min_free = free_bytes(directory) - SLACK
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 * SLACK)

    def clear(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    assert disk.min_free > 2 * SLACK, "this test needs 4 GiB of free disk"
    yield disk
    disk.clear()


@pytest.fixture
def line(disk: Disk, tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path, mode="file-native", min_free=disk.min_free)
    yield line
    disk.clear()
    line.close()


def numbered(first: int, count: int, qos: int = 1, topic: str = "push/a") -> list[Message]:
    return [Message(topic, b"%d" % number, qos) for number in range(first, first + count)]


def arrived(client: Client, topic: str) -> list[int]:
    return [int(payload) for payload in client.topics().get(topic, [])]


def refusing(line: Line) -> bool:
    return bool(line.node.status()["storage"]["refusing"])


def test_publishers_are_refused_while_the_disk_is_nearly_full_and_nothing_is_lost(line: Line, disk: Disk) -> None:
    with (
        Client(line.node.port) as new,
        Client(line.node.port, "3.1.1") as old,
        Client(line.remote.port) as there,
    ):
        there.subscribe("push/#")
        new.subscribe("pull/#")
        line.go_away()
        new.publish_all(numbered(0, COUNT))
        disk.fill()
        until(lambda: refusing(line), "the node notices")
        answers: list[int] = []
        new.paho.on_publish = lambda client, userdata, mid, reason, properties: answers.append(reason.value)
        for message in numbered(COUNT, COUNT):
            new.publish(message)
        until(lambda: len(answers) == COUNT, "every message has its answer")
        assert set(answers) == {QUOTA_EXCEEDED}
        waiting = [old.publish(message) for message in numbered(COUNT, COUNT)]
        until(lambda: line.node.status()["broker"]["heldBack"] == 1, "the other publisher is held back")
        code, readiness = line.node.get("/api/v1/health/readiness")
        assert (code, len(readiness["degraded"])) == (200, 1)

        line.come_back()  # what is here leaves: that is what makes room
        line.node.wait_drained()
        there.barrier()
        assert arrived(there, "push/a") == list(range(COUNT))
        there.publish_all(numbered(0, COUNT, 2, "pull/a"))  # mosquitto has them; the node does not take them yet
        assert arrived(new, "pull/a") == []

        disk.clear()
        until(lambda: not refusing(line), "there is room again")
        for info in waiting:
            info.wait_for_publish(PATIENCE)
            assert info.is_published()
        new.wait_until(lambda _: len(arrived(new, "pull/a")) == COUNT, "what the remote had comes")
        line.node.wait_drained()
        there.barrier()
        assert arrived(there, "push/a") == list(range(2 * COUNT))
        assert arrived(new, "pull/a") == list(range(COUNT))
        assert not old.disconnected.is_set()


def test_a_kill_while_publishers_are_held_back_loses_nothing_that_was_acknowledged(line: Line, disk: Disk) -> None:
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.go_away()
        with Client(line.node.port, "3.1.1", client_id="device", lasting=True) as device:
            device.publish_all(numbered(0, COUNT, 2))
            disk.fill()
            until(lambda: refusing(line), "the node notices")
            waiting = [device.publish(message) for message in numbered(COUNT, COUNT, 2)]
            until(lambda: line.node.status()["broker"]["heldBack"] == 1, "the publisher is held back")
            line.kill()
            assert refusing(line), "a new life knows it at once"
            disk.clear()
            line.come_back()
            for info in waiting:
                info.wait_for_publish(PATIENCE)
                assert info.is_published()
        line.node.wait_drained()
        there.barrier()
        assert arrived(there, "push/a") == list(range(2 * COUNT))


class LowWater:
    """The least that was free of a disk while the block ran."""

    def __init__(self, disk: SmallDisk) -> None:
        self._disk = disk
        self._over = Event()
        self._thread = Thread(target=self._watch)
        self.free = disk.room

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self.free = min(self.free, self._disk.room)

    def __enter__(self) -> LowWater:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def flood(client: Client, size: int) -> list[int]:
    """Numbered messages that nothing squeezes, until fifty are refused; those that were acknowledged."""
    answers: dict[int, int] = {}
    client.paho.on_publish = lambda client, userdata, mid, reason, properties: answers.update({mid: reason.value})
    noise = Random(size).randbytes(size)
    sent: list[int] = []
    while sum(code == QUOTA_EXCEEDED for code in answers.copy().values()) < 50:
        sent.append(client.publish(Message("push/a", b"%d " % len(sent) + noise, 1)).mid)
        until(lambda: len(sent) - len(answers) < 20, "answers come")
    until(lambda: len(answers) == len(sent), "every message has its answer")
    return [number for number, mid in enumerate(sent) if answers[mid] == 0]


def numbers_of(client: Client, topic: str) -> list[int]:
    return [int(payload.split(b" ", 1)[0]) for payload in client.topics()[topic]]


@pytest.mark.parametrize(("engine", "size"), [("inline", 20_000), ("inline", 700_000), ("spark", 200_000)])
def test_a_flood_on_a_small_disk_is_refused_before_storage_needs_what_is_not_there(
    tmp_path: Path, engine: str, size: int
) -> None:
    """What was let in is to be written once or twice more, by the node as it runs or by its next life: that is kept free."""
    remote = Mosquitto(tmp_path / "remote")
    min_free = 48 * MIB
    with SmallDisk(tmp_path / "disk", 320 * MIB) as disk, ExitStack() as stack:
        document = {
            "persistence": {"mode": "file-native", "minFree": min_free},
            "dataDir": str(disk.directory / "data"),
            "pipeline": {"engine": engine},
            "bridges": [{"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["push/#"]}]}],
        }
        node = NodeProcess(tmp_path / "node", document)
        stack.callback(remote.stop)
        stack.callback(node.close)
        node.launch()
        node.wait_ready()
        with LowWater(disk) as low:
            with Client(node.port) as device:
                acknowledged = flood(device, size)
            assert len(acknowledged) * size > 40 * MIB
            node.kill()
            node.launch()  # which finds all of it in the front log
            node.wait_ready()
        assert low.free > min_free // 2, f"{low.free >> 20} MiB of {min_free >> 20} were left"
        remote.start()
        with Client(remote.port) as there:
            there.subscribe("push/#")
            node.wait_connected()
            node.wait_drained()
            there.barrier()
            assert numbers_of(there, "push/a") == acknowledged
            until(lambda: not node.status()["storage"]["refusing"], "there is room again")
            with Client(node.port) as device:
                device.publish_all(numbered(0, 1))
            node.wait_drained()


def test_a_disk_that_is_short_drains_although_the_remote_has_more_than_there_is_room_for(tmp_path: Path) -> None:
    """The remote's flood comes first on every connection, and the acknowledgements for what is pushed behind it."""
    remote = Mosquitto(tmp_path / "remote").start()
    wire = Proxy(remote.port)
    wire.open()
    bridge = {
        "id": "b",
        "host": "127.0.0.1",
        "port": wire.port,
        "localSubscriptions": [{"filters": ["push/#"]}],
        "remoteSubscriptions": [{"filters": ["pull/#"]}],
    }
    with SmallDisk(tmp_path / "disk", 256 * MIB) as disk, ExitStack() as stack:
        document = {
            "persistence": {"mode": "file-native", "minFree": 48 * MIB},
            "dataDir": str(disk.directory / "data"),
            "pipeline": {"engine": "inline"},
            "bridges": [bridge],
        }
        node = NodeProcess(tmp_path / "node", document)
        stack.callback(remote.stop)
        stack.callback(node.close)
        node.wires.append(wire)
        node.start()
        with Client(remote.port) as there, Client(node.port) as here:
            there.subscribe("push/#")
            here.subscribe("pull/#")
            wire.close()
            until(lambda: node.bridge("b")["state"] == "disconnected", "the bridge knows that the remote is away")
            noise = Random(1).randbytes(MIB // 2)
            there.publish_all([Message("pull/a", b"%d " % number + noise, 2) for number in range(80)])
            acknowledged = flood(here, MIB // 2)
            wire.heal()
            wire.open()
            here.wait_until(lambda _: here.came["pull/a"] == 80, "what the remote had comes")
            node.wait_drained()
            there.barrier()
            assert list(dict.fromkeys(numbers_of(there, "push/a"))) == acknowledged, "a new connection may repeat some"
            assert numbers_of(here, "pull/a") == list(range(80))
        assert "it is to come again" in node.log(), "there was more than is held back"
