"""Messages that a remote will not take: tried again at their time, kept as dead letters, sent again or dropped by command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.refusing import RefusingRemote
from support.waiting import until

Nodes = Callable[..., NodeProcess]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Makes a node that pushes push/# to a port."""
    made: list[NodeProcess] = []

    def make(port: int, mode: str = "file-native", **route: Any) -> NodeProcess:
        bridge = {"id": "b", "host": "127.0.0.1", "port": port, "localSubscriptions": [{"filters": ["push/#"], **route}]}
        document = {"pipeline": {"engine": "inline"}, "persistence": {"mode": mode}, "bridges": [bridge]}
        made.append(NodeProcess(tmp_path / f"node-{len(made)}", document).start())
        return made[-1]

    yield make
    for node in made:
        node.close()


class Guarded:
    """A mosquitto that lets nobody write to push/secret/#, until it is told to."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self._file, self._log = directory / "acl", directory / "mosquitto.log"
        directory.mkdir()
        self._file.write_text("topic read #\ntopic readwrite push/open/#\ntopic readwrite barrier/#\n")
        self.broker = Mosquitto(directory, acl_file=self._file, **settings).start()
        self.port = self.broker.port

    def open(self) -> None:
        self._file.write_text("topic readwrite #\n")
        os.kill(self.broker.pid, signal.SIGHUP)
        until(lambda: "Reloading" in self._log.read_text(), "mosquitto has read its rules again")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    remote = Guarded(tmp_path / "remote")
    yield remote
    remote.broker.stop()


def deadletters(node: NodeProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    whole = [COMMAND, "deadletters", arguments[0], "-c", str(node.file), *arguments[1:]]
    return subprocess.run(whole, capture_output=True, text=True, timeout=120, check=False)


def listed(node: NodeProcess) -> list[dict[str, Any]]:
    result = deadletters(node, "list", "--json")
    assert result.returncode == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["deadLetters"]
    return found


def route(node: NodeProcess) -> dict[str, Any]:
    [found] = node.routes("b", "push")
    assert found["entered"] == found["delivered"] + sum((found["dropped"] | found["deadLettered"]).values()) + found["depth"]
    return found


def wait_buried(node: NodeProcess, count: int) -> None:
    until(lambda: sum(route(node)["deadLettered"].values()) == count, f"{count} dead letters", detail=node.log)


SECRET = [Message("push/secret/1", b"one", 1), Message("push/secret/2", b"two", 2), Message("push/secret/1", b"three", 1)]
OPEN = [Message(f"push/open/{n % 3}", b"%d" % n, n % 3) for n in range(20)]


@pytest.mark.mosquitto
def test_what_an_acl_forbids_is_kept_and_sent_again_by_command_when_it_is_allowed(guarded: Guarded, nodes: Nodes) -> None:
    node = nodes(guarded.port)
    with Client(node.port) as here, Client(guarded.port) as there:
        there.subscribe("push/#")
        here.publish_all([*OPEN[:10], *SECRET, *OPEN[10:]])
        wait_buried(node, 3)
        node.wait_drained()
        there.wait_for(20)
        for qos in range(3):
            assert there.topics()[f"push/open/{qos}"] == [b"%d" % n for n in range(qos, 20, 3)]
        assert route(node)["deadLettered"] == {"refused-0x87": 3}
        letters = listed(node)
        assert [(one["topic"], one["payload"], one["qos"]) for one in letters] == [
            (message.topic, message.payload.decode(), message.qos) for message in SECRET
        ]
        why = {(one["reason"], one["reasonName"], one["attempts"]) for one in letters}
        assert why == {("refused-0x87", "not authorized", 1)}
        text = deadletters(node, "list").stdout.splitlines()
        assert len(text) == 4
        assert "refused-0x87 (not authorized)" in text[0]

        first, _, third = (str(one["id"]) for one in letters)
        assert deadletters(node, "resend", "--id", first).stdout == "1 dead letters resent\n"
        wait_buried(node, 4)
        assert [one["payload"] for one in listed(node)] == ["two", "three", "one"], "still forbidden: it comes back"
        guarded.open()
        assert deadletters(node, "drop", "--id", third).returncode == 0
        assert deadletters(node, "resend", "--all").stdout == "2 dead letters resent\n"
        there.wait_for(22)
        assert there.topics()["push/secret/1"] == [b"one"]
        assert there.topics()["push/secret/2"] == [b"two"]
        assert listed(node) == []
        until(lambda: route(node)["delivered"] == 22, "all are delivered")
        assert route(node)["deadLetters"]["left"] == {"resent": 3, "dropped": 1}


@pytest.mark.mosquitto
def test_dead_letters_outlive_a_kill_and_are_looked_after_while_the_node_does_not_run(guarded: Guarded, nodes: Nodes) -> None:
    node = nodes(guarded.port)
    with Client(node.port) as here:
        here.publish_all(SECRET)
        wait_buried(node, 3)
        node.kill()
    letters = listed(node)
    assert [one["payload"] for one in letters] == ["one", "two", "three"]
    assert deadletters(node, "drop", "--id", str(letters[1]["id"])).returncode == 0
    result = deadletters(node, "resend", "--id", str(letters[1]["id"]))
    assert (result.returncode, result.stderr) == (1, f"bridgehead: there is no dead letter {letters[1]['id']}\n")
    assert deadletters(node, "resend", "--id", str(letters[0]["id"]), "--route", letters[0]["route"]).returncode == 0
    guarded.open()
    with Client(guarded.port) as there:
        there.subscribe("push/#")
        node.start()
        there.wait_for(1)
        assert [message.payload for message in there.messages] == [b"one"]
        assert [one["payload"] for one in listed(node)] == ["three"]
        assert deadletters(node, "resend", "--all").returncode == 0
        there.wait_for(2)
    until(lambda: route(node)["depth"] == 0, "all are delivered")
    assert route(node)["deadLettered"] == {"refused-0x87": 3}, "counters are kept"
    for life in (lambda: None, node.stop):  # the sums hold with what was sent again, running and stopped
        life()
        audit = [COMMAND, "audit", "-c", str(node.file)]
        result = subprocess.run(audit, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout


@pytest.mark.mosquitto
def test_dead_letters_of_a_route_that_was_taken_out_of_the_file_can_only_be_dropped(guarded: Guarded, nodes: Nodes) -> None:
    node = nodes(guarded.port)
    with Client(node.port) as here:
        here.publish_all(SECRET[:1])
        wait_buried(node, 1)
    [letter] = listed(node)
    node.stop()
    node.file.write_text(node.file.read_text().replace("push/#", "elsewhere/#"))
    for life in (lambda: None, node.start):
        life()
        assert [one["id"] for one in listed(node)] == [letter["id"]]
        result = deadletters(node, "resend", "--all")
        assert result.returncode == 1
        assert f"there is no route {letter['route']} any more" in result.stderr
    assert deadletters(node, "drop", "--all").returncode == 0
    assert listed(node) == []


@pytest.mark.mosquitto
def test_a_payload_over_the_brokers_limit_is_refused_and_kept(tmp_path: Path, nodes: Nodes) -> None:
    remote = Mosquitto(tmp_path / "remote", message_size_limit=1000).start()
    node = nodes(remote.port, mode="in-memory")
    with Client(node.port) as here, Client(remote.port) as there:
        there.subscribe("push/#")
        here.publish_all([Message("push/a", b"x" * size, qos) for size, qos in ((10, 1), (5000, 1), (5000, 2), (20, 2))])
        wait_buried(node, 2)
        there.wait_for(2)
        assert [len(message.payload) for message in there.messages] == [10, 20]
        assert route(node)["deadLettered"] == {"refused-0x95": 2}
        assert node.bridge("b")["connects"] == 1
    remote.stop()


def test_a_topic_that_is_over_its_quota_waits_in_order_and_the_others_flow(nodes: Nodes) -> None:
    codes = {"push/quota": 0x97, "push/moody": 0x83, "push/never": 0x80}

    def verdict(topic: str, payload: bytes, before: int) -> int:
        spared = topic not in codes or payload != b"0" or (topic != "push/never" and before == 2)
        return 0 if spared else codes[topic]

    remote = RefusingRemote(verdict)
    node = nodes(remote.port)
    with Client(node.port) as here:
        here.publish_all([Message(topic, b"0", qos) for topic, qos in zip(codes, (1, 2, 2), strict=True)])
        until(lambda: route(node)["heldBack"] == 3, "they wait for their time", detail=node.log)
        here.publish_all([Message(topic, b"%d" % n, 1 + n % 2) for n in range(1, 5) for topic in (*codes, "push/free")])
        until(lambda: len(remote.taken("push/free")) == 4, "others flow")
        assert not any(remote.taken(topic) for topic in codes), "they flow while these wait"
        for topic in ("push/quota", "push/moody"):
            until(lambda topic=topic: len(remote.taken(topic)) == 5, "it is taken at the third try", detail=node.log)
        wait_buried(node, 1)
        until(lambda: route(node)["depth"] == 0, "all that waited is delivered", detail=node.log)
    for topic in ("push/quota", "push/moody"):
        assert remote.taken(topic) == [b"0", b"1", b"2", b"3", b"4"]
    assert remote.taken("push/never") == [b"1", b"2", b"3", b"4"]
    tries = [one.at for one in remote.arrivals if (one.topic, one.payload) == ("push/never", b"0")]
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert len(pauses) == 5
    assert all(pause >= least - 0.05 for pause, least in zip(pauses, (1, 2, 4, 8, 16), strict=True)), pauses
    assert [(one["topic"], one["attempts"]) for one in listed(node)] == [("push/never", 6)]
    assert route(node)["reordered"] == 0
    remote.close()


def test_after_a_kill_refused_messages_and_those_behind_them_wait_again_in_order(nodes: Nodes) -> None:
    refuse = [True]
    remote = RefusingRemote(lambda topic, payload, before: 0x97 if refuse[0] else 0)
    node = nodes(remote.port)
    with Client(node.port) as here:
        here.publish_all([Message("push/a", b"0", 1)])
        until(lambda: route(node)["heldBack"] == 1, "it waits for its time")
        here.publish_all([Message("push/a", b"%d" % n, 1 + n % 2) for n in range(1, 10)])
        until(lambda: route(node)["depth"] == 10, "all wait")
        node.kill()
    refuse[0] = False
    node.start()
    until(lambda: len(remote.taken("push/a")) == 10, "all are delivered", detail=node.log)
    assert remote.taken("push/a") == [b"%d" % n for n in range(10)]
    remote.close()


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, nodes: Nodes) -> None:
    remote = RefusingRemote(lambda topic, payload, before: 0)
    node = nodes(remote.port, mode="in-memory")
    assert deadletters(node, "list").stdout == "0 dead letters\n"
    assert deadletters(node, "drop", "--all").stdout == "0 dead letters dropped\n"
    result = deadletters(node, "drop", "--id", "3")
    assert (result.returncode, result.stderr) == (1, "bridgehead: the node refused: there is no dead letter 3\n")
    for wrong in (("drop",), ("resend", "--id", "3", "--all"), ("drop", "--id", "x"), ("list", "--limit", "0")):
        assert deadletters(node, *wrong).returncode == 2
    node.stop()
    result = deadletters(node, "list")
    assert result.returncode == 1
    assert "keeps nothing" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    node.file.write_text(node.file.read_text().replace("in-memory", "file-native"))
    result = deadletters(node, "list")
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert "does not exist" in result.stderr
    node.file.write_text("bridges: 5")
    assert deadletters(node, "list").returncode == 2
    remote.close()
