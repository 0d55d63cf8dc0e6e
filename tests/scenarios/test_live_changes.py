"""Bridges that are added, changed, stopped and removed while their node runs: no queue goes that nobody asked to go."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.proxy import Proxy
from support.waiting import until

pytestmark = pytest.mark.mosquitto

API = "/api/v1/management/bridges"
COUNT = 40
DONE = (200, None)
STOPS_WITHIN = 35.0


class Place:
    """A node whose bridges are added by the test; ``wire`` leads to the remote, and is closed at first."""

    def __init__(self, directory: Path, remote: Mosquitto, mode: str) -> None:
        self.remote = remote
        self.wire = Proxy(remote.port)
        document = {"persistence": {"mode": mode}, "pipeline": {"engine": "inline"}}
        self.node = NodeProcess(directory / "node", document)
        self.node.wires.append(self.wire)
        self.node.launch()
        self.node.wait_ready()

    def bridge(self, name: str = "b", **given: Any) -> dict[str, Any]:
        rules = [{"filters": [f"{name}/one/#"]}, {"filters": [f"{name}/two/#"]}]
        # A name of its own at the remote, which all tests share: no test finds the session of another one.
        client = f"{self.node.console_port}-{name}"
        whole = {"id": name, "clientId": client, "host": "127.0.0.1", "port": self.wire.port, "localSubscriptions": rules}
        return {**whole, **given}

    def add(self, name: str = "b", **given: Any) -> None:
        assert self.node.ask("POST", API, self.bridge(name, **given)) == DONE

    def change(self, name: str = "b", query: str = "", **given: Any) -> None:
        assert self.node.ask("PUT", f"{API}/{name}{query}", self.bridge(name, **given)) == DONE

    def tell(self, command: str, name: str = "b") -> None:
        code, answer = self.node.ask("PUT", f"{API}/{name}/status", {"command": command})
        assert (code, answer["status"], answer["type"], answer["identifier"]) == (200, "PENDING", "bridge", name)

    def publish(self, *topics: str, first: int = 0, qos: int = 1) -> None:
        with Client(self.node.port) as device:
            texts = [str(number).encode() for number in range(first, first + COUNT)]
            device.publish_all(Message(topic, text, qos=qos) for text in texts for topic in topics)

    def depths(self, name: str = "b") -> list[int]:
        return [route["depth"] for route in self.node.routes(name, "push")]

    def state(self, name: str = "b") -> tuple[str, str]:
        code, status = self.node.get(f"{API}/{name}/connection-status")
        assert code == 200
        return status["connection"], status["runtime"]

    def wait_connected(self, name: str = "b") -> None:
        until(lambda: self.state(name) == ("CONNECTED", "STARTED"), "the bridge is connected", detail=self.node.log)

    def adds_up(self) -> None:
        code, account = self.node.get("/api/v1/audit")
        assert (code, account["faults"]) == (200, [])

    def close(self) -> None:
        self.node.close()
        self.wire.close()


BOTH = pytest.mark.parametrize("place", ["in-memory", "file-native"], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, remote: Mosquitto) -> Iterator[Place]:
    found = Place(tmp_path, remote, getattr(request, "param", "in-memory"))
    yield found
    found.close()


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]


@BOTH
def test_a_change_of_the_keep_alive_keeps_every_queue_and_each_message_comes_once(place: Place) -> None:
    place.add()
    place.publish("b/one/x", "b/two/x", qos=2)
    until(lambda: place.depths() == [COUNT, COUNT], "all wait")
    place.change(keepAlive=30)
    assert place.depths() == [COUNT, COUNT]
    with Client(place.remote.port) as there:
        there.subscribe("b/#")
        place.wire.open()
        there.wait_for(2 * COUNT)
        place.change(keepAlive=31)
        place.change(keepAlive=32)
        place.publish("b/one/x", first=COUNT, qos=2)
        there.wait_for(3 * COUNT)
        place.node.wait_drained()
        topics = there.topics()
    assert numbers(topics["b/one/x"]) == list(range(2 * COUNT))
    assert numbers(topics["b/two/x"]) == list(range(COUNT))
    place.adds_up()


@BOTH
def test_a_change_of_one_route_keeps_the_queue_of_the_other(place: Place) -> None:
    place.add()
    place.publish("b/one/x", "b/two/x")
    until(lambda: place.depths() == [COUNT, COUNT], "all wait")
    place.change(localSubscriptions=[{"filters": ["b/one/#"]}, {"filters": ["b/two/#"], "destination": "elsewhere/{#}"}])
    assert place.depths() == [COUNT, 0]
    (aside,) = place.node.status()["removedRoutes"].values()
    assert aside["depth"] == COUNT
    with Client(place.remote.port) as there:
        there.subscribe("b/#")
        place.wire.open()
        there.wait_for(COUNT)
        place.change()  # as it was: the queue that was put aside is found again
        there.wait_for(2 * COUNT)
        topics = there.topics()
    assert {topic: numbers(payloads) for topic, payloads in topics.items()} == {
        "b/one/x": list(range(COUNT)),
        "b/two/x": list(range(COUNT)),
    }
    (other,) = place.node.status()["removedRoutes"].values()
    assert (other["received"], other["depth"]) == (0, 0)
    place.adds_up()


@BOTH
def test_changes_in_mid_flow_cost_no_message_of_qos_2_and_double_none(place: Place) -> None:
    place.wire.open()
    pull = [{"filters": ["down/#"]}]
    place.add(remoteSubscriptions=pull)
    until(lambda: place.node.bridge("b")["subscribed"], "it is subscribed")
    ended, sent = threading.Event(), [0, 0]

    def publish(way: int, client: Client, topic: str) -> None:
        while not ended.is_set():
            client.publish_all(Message(topic, str(sent[way] + i).encode(), qos=2) for i in range(20))
            sent[way] += 20

    with Client(place.remote.port) as there, Client(place.node.port) as here:
        there.subscribe("b/#")
        here.subscribe("down/#")
        devices = [
            threading.Thread(target=publish, args=(0, here, "b/one/x")),
            threading.Thread(target=publish, args=(1, there, "down/x")),
        ]
        for device in devices:
            device.start()
        for keep_alive in range(30, 36):
            place.change(keepAlive=keep_alive, remoteSubscriptions=pull)
            place.tell("STOP")
            place.change(keepAlive=keep_alive, remoteSubscriptions=pull, persist=True, tier2Limit=keep_alive)
            place.tell("RESTART")
        ended.set()
        for device in devices:
            device.join()
        there.wait_until(lambda _: there.came["b/one/x"] >= sent[0], "all went up")
        here.wait_until(lambda _: here.came["down/x"] >= sent[1], "all came down")
        there.barrier()
        here.barrier()
        up, down = numbers(there.topics()["b/one/x"]), numbers(here.topics()["down/x"])
    assert (up, down) == (list(range(sent[0])), list(range(sent[1])))
    place.adds_up()


def test_a_stopped_bridge_queues_on_and_stays_stopped_until_it_is_started(place: Place) -> None:
    place.wire.open()
    place.add()
    place.wait_connected()
    connects = place.node.bridge("b")["connects"]
    place.tell("STOP")
    assert place.state() == ("DISCONNECTED", "STOPPED")
    assert place.node.bridge("b")["state"] == "stopped"
    place.publish("b/one/x")
    until(lambda: place.depths() == [COUNT, 0], "they are queued")
    place.tell("RESTART")  # of what does not run: nothing
    assert place.state() == ("DISCONNECTED", "STOPPED")
    with Client(place.remote.port) as there:
        there.subscribe("b/#")
        place.tell("START")
        there.wait_for(COUNT)
        place.wait_connected()
        assert place.node.bridge("b")["connects"] == connects + 1
        place.tell("RESTART")
        until(lambda: place.node.bridge("b")["connects"] == connects + 2, "it has connected anew")
        place.publish("b/one/x", first=COUNT)
        there.wait_for(2 * COUNT)
        assert numbers(there.topics()["b/one/x"]) == list(range(2 * COUNT))


@BOTH
def test_a_bridge_that_is_removed_leaves_its_queue_aside_or_with_purge_nothing(place: Place) -> None:
    place.add()
    place.publish("b/one/x")
    until(lambda: place.depths() == [COUNT, 0], "all wait")
    assert place.node.ask("DELETE", f"{API}/b") == DONE
    assert place.node.ask("DELETE", f"{API}/b")[0] == 404
    place.add()
    assert place.depths() == [COUNT, 0]
    assert place.node.ask("DELETE", f"{API}/b?purge=true") == DONE
    assert place.node.status()["removedRoutes"] == {}
    place.add()
    assert place.depths() == [0, 0]
    place.publish("b/one/x", first=COUNT)
    with Client(place.remote.port) as there:
        there.subscribe("b/#")
        place.wire.open()
        there.wait_for(COUNT)
        assert numbers(there.topics()["b/one/x"]) == list(range(COUNT, 2 * COUNT))
    place.adds_up()


def test_what_the_api_has_changed_is_there_in_the_next_life(place: Place) -> None:
    place.add("b")
    place.add("c", password="${ENV:HOME}", username="u")
    place.tell("STOP", "c")
    place.node.stop()
    place.node.launch()
    place.node.wait_ready()
    assert place.state("b") == ("DISCONNECTED", "STARTED")
    assert place.state("c") == ("DISCONNECTED", "STOPPED")
    code, found = place.node.get(f"{API}/c")
    assert (code, found["password"]) == (200, "${ENV:HOME}")
    assert place.node.ask("DELETE", f"{API}/b") == DONE
    place.node.kill()
    place.node.launch()
    assert [each["id"] for each in place.node.get(API)[1]["items"]] == ["c"]


def test_a_stop_ends_within_its_limit_though_the_remote_does_not_answer_any_more(place: Place) -> None:
    place.wire.open()
    place.add()
    place.wait_connected()
    place.wire.hole()
    place.publish("b/one/x")
    until(lambda: place.depths() == [COUNT, 0], "they are on their way")
    began = time.monotonic()
    place.tell("STOP")
    assert time.monotonic() - began < STOPS_WITHIN
    assert place.state() == ("DISCONNECTED", "STOPPED")
    assert place.depths() == [COUNT, 0]
    place.wire.heal()


def test_a_stopped_bridge_that_does_not_queue_counts_what_it_does_not_keep(place: Place) -> None:
    place.wire.open()
    place.add(queueWhileStopped=False)
    place.wait_connected()
    place.tell("STOP")
    place.publish("b/one/x")
    one, _ = place.node.routes("b", "push")
    assert (one["depth"], one["droppedBefore"]) == (0, {"stopped": COUNT})
    with Client(place.remote.port) as there:
        there.subscribe("b/#")
        place.tell("START")
        place.publish("b/one/x", first=COUNT)
        there.wait_for(COUNT)
        assert numbers(there.topics()["b/one/x"]) == list(range(COUNT, 2 * COUNT))
    place.adds_up()


def test_a_filter_that_nobody_wants_any_more_is_unsubscribed_and_the_others_go_on(place: Place) -> None:
    rules = [{"filters": ["down/one/#"]}, {"filters": ["down/two/#"]}]
    place.wire.open()
    place.add(remoteSubscriptions=rules)
    until(lambda: place.node.bridge("b")["subscribed"], "it is subscribed")
    with Client(place.node.port) as here, Client(place.remote.port) as there:
        here.subscribe("down/#")
        there.publish_all([Message("down/one/x", b"1", qos=2), Message("down/two/x", b"1", qos=2)])
        here.wait_for(2)
        place.change(remoteSubscriptions=rules[:1])
        until(lambda: place.node.bridge("b")["subscribed"], "it is subscribed again")
        there.publish_all([Message("down/two/x", b"2", qos=2), Message("down/one/x", b"2", qos=2)])
        here.wait_for(3)
        assert place.node.bridge("b")["unmatched"] == 0
        assert here.topics() == {"down/one/x": [b"1", b"2"], "down/two/x": [b"1"]}


def test_a_file_that_was_only_touched_changes_nothing_and_what_it_says_anew_is_followed(place: Place) -> None:
    def write(*bridges: dict[str, Any], **given: Any) -> None:
        document = yaml.safe_load(place.node.file.read_text())
        place.node.file.write_text(yaml.safe_dump({**document, "bridges": list(bridges), **given}))

    def known() -> list[str]:
        return [each["id"] for each in place.node.get(API)[1]["items"]]

    place.wire.open()
    write(place.bridge("b"), place.bridge("c"))
    until(lambda: known() == ["b", "c"], "the file is followed", detail=place.node.log)
    place.wait_connected("b")
    place.wait_connected("c")
    place.node.file.touch()
    os.kill(place.node.pid, signal.SIGHUP)
    until(lambda: "the file was read again: 2 bridges as before" in place.node.log(), "it was read again")
    assert [place.node.bridge(name)["connects"] for name in "bc"] == [1, 1]

    write(place.bridge("b", keepAlive=-1, port=0), place.bridge("c", password="p", mqttVersion="3.1.1"))
    os.kill(place.node.pid, signal.SIGHUP)
    until(lambda: "has 3 faults, nothing is changed" in place.node.log(), "the faults are told", detail=place.node.log)
    code, problem = place.node.ask("POST", "/api/v1/management/reload", {})
    assert (code, problem["type"], len(problem["errors"])) == (400, "ConfigurationInvalid", 3)
    assert [place.node.bridge(name)["connects"] for name in "bc"] == [1, 1]

    write(place.bridge("b"), place.bridge("d"), journal={"maxBytes": "1GiB"})
    assert place.node.ask("POST", "/api/v1/management/reload", {}) == (
        200,
        {"added": ["d"], "changed": [], "removed": ["c"], "kept": ["b"], "atNextStart": ["journal"]},
    )
    place.wait_connected("d")
    assert place.node.bridge("b")["connects"] == 1


def test_the_commands_list_stop_and_start_bridges_and_reload_the_file(place: Place) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run([COMMAND, *words, "-c", str(place.node.file)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    place.wire.open()
    place.add()
    place.wait_connected()
    assert run("bridges", "list") == (0, f"b  started, connected  127.0.0.1:{place.wire.port}  2 push, 0 pull\n")
    assert run("bridges", "stop", "b") == (0, "b: stopped, disconnected\n")
    assert run("bridges", "start", "b")[1].startswith("b: started")
    assert run("bridges", "stop", "nobody") == (1, "bridgehead: the node refused: there is no bridge nobody\n")
    assert run("reload") == (0, "1 bridge as before\n")
    place.node.file.write_text(place.node.file.read_text() + "bridges: 5\n")
    code, text = run("reload")
    assert (code, "bridges" in text) == (2, True)  # what cannot be read here, nobody is asked to read


def test_a_faulty_bridge_changes_nothing_and_all_its_faults_are_told(place: Place) -> None:
    place.add()
    faulty = place.bridge("c", port=0, keepAlive="often", localSubscriptions=[{"filters": ["a/#/b"], "maxQoS": 3}])
    code, problem = place.node.ask("POST", API, faulty)
    assert (code, problem["type"], problem["status"]) == (400, "BridgeFailedSchemaValidation", 400)
    assert sorted(each["parameter"] for each in problem["errors"]) == [
        "keepAlive",
        "localSubscriptions[0].filters[0]",
        "localSubscriptions[0].maxQoS",
        "port",
    ]
    code, problem = place.node.ask("PUT", f"{API}/b", place.bridge("c"))
    assert (code, problem["type"], problem["errors"][0]["parameter"]) == (400, "InvalidQueryParameter", "id")
    assert place.node.ask("POST", API, place.bridge())[1]["type"] == "BridgeFailedSchemaValidation"
    code, problem = place.node.ask("PUT", f"{API}/nobody", place.bridge("nobody"))
    assert (code, problem["type"]) == (404, "BridgeNotFound")
    assert place.node.ask("PUT", f"{API}/b/status", {"command": "FLY"})[0] == 400
    assert [each["id"] for each in place.node.get(API)[1]["items"]] == ["b"]
