"""Pull filters that overlap in part, over MQTT 3.1.1: a message comes once, however many copies the remote would send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

RULES: list[dict[str, Any]] = [
    {"filters": ["one/a/+", "one/+/b"]},
    {"filters": ["two/a/+"], "destination": "first/{#}", "maxQoS": 1},
    {"filters": ["two/+/b"], "destination": "second/{#}"},
    # No topic is of both, and yet one subscription brings what is of either.
    {"filters": ["kept/a/+/1", "kept/+/b/1"], "retained": "first"},
    {"filters": ["kept/c/c/+"]},
]
LIVE = {"id": "live", "host": "127.0.0.1", "mqttVersion": "3.1.1"}
API = "/api/v1/management/bridges"
STORED = ["kept/a/x/1", "kept/a/b/1", "kept/c/c/1", "kept/x/x/x"]


@pytest.fixture(scope="module", params=[2, 1], ids=["a copy for each subscription", "one copy"])
def copies(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def remote(copies: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("overlaps"), allow_duplicate_messages=str(copies > 1).lower()).start()
    with Client(broker.port) as client:
        client.publish_all([Message(topic, b"stored", 1, retain=True) for topic in STORED])
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    bridge = {"id": "four", "host": "127.0.0.1", "port": remote.port, "mqttVersion": "3.1.1", "remoteSubscriptions": RULES}
    process = NodeProcess(tmp_path_factory.mktemp("node"), {"pipeline": {"engine": "inline"}, "bridges": [bridge]})
    yield process.start()
    process.close()


def test_the_remote_sends_a_client_as_many_copies_as_said(remote: Mosquitto, copies: int) -> None:
    with Client(remote.port, "3.1.1") as naive:
        for each in ("zero/a/+", "zero/+/b"):
            naive.subscribe(each)
        naive.publish_all([Message("zero/a/b", b"", 1)])
        assert len(naive.barrier()) == copies


def test_what_is_stored_comes_to_the_route_that_wants_it_and_to_no_other(remote: Mosquitto, node: NodeProcess) -> None:
    until(lambda: node.bridge("four")["subscribed"], "it is subscribed")
    until(lambda: node.bridge("four")["retainedSkipped"] == 2, "what nobody wants is skipped")
    node.wait_drained()
    received = [route["received"] for route in sorted(node.routes("four", "pull"), key=lambda route: str(route["filters"]))]
    assert received == [2, 0, 0, 0, 0]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_comes_once_by_each_route_that_matches(remote: Mosquitto, node: NodeProcess, qos: int) -> None:
    topics = [f"{group}/{rest}" for group in ("one", "two") for rest in ("a/b", "a/x", "x/b", "x/x")]
    before = node.bridge("four")["unmatched"]
    with Client(node.port) as here, Client(remote.port) as there:
        for each in ("one/#", "first/#", "second/#"):
            here.subscribe(each)
        there.publish_all([Message(topic, b"%d" % number, qos) for number in range(5) for topic in topics])
        came = here.wait_for(5 * (3 + 2 + 2))
        until(lambda: node.bridge("four")["unmatched"] - before == 10, "what no route wants has come, and is not kept")
        node.wait_drained()
        came = here.barrier()
    wanted = {"one/a/b": qos, "one/a/x": qos, "one/x/b": qos} | {f"second/two/{rest}": qos for rest in ("a/b", "x/b")}
    wanted |= {f"first/two/{rest}": min(qos, 1) for rest in ("a/b", "a/x")}
    assert Counter((message.topic, message.qos) for message in came) == dict.fromkeys(wanted.items(), 5)
    assert all(numbers == [b"%d" % number for number in range(5)] for numbers in here.topics().values())


def test_filters_that_join_and_part_again_in_mid_flow_cost_a_route_no_message(remote: Mosquitto, node: NodeProcess) -> None:
    def change(*more: str) -> None:
        bridge = {**LIVE, "port": remote.port, "remoteSubscriptions": [{"filters": [each]} for each in ("live/a/+", *more)]}
        connects = node.bridge("live")["connects"] if "live" in node.status()["bridges"] else 0
        assert node.ask("PUT" if connects else "POST", f"{API}/live" if connects else API, bridge)[0] == 200
        until(lambda: node.bridge("live")["connects"] > connects and node.bridge("live")["subscribed"], "it has followed")

    change()
    with Client(node.port) as here, Client(remote.port) as there:
        here.subscribe("live/#")
        stream = Stream(there, "live/a/x", 1)
        for more in (["live/+/b"], []) * 3:
            change(*more)
        sent = stream.stop()
        there.publish_all([Message("live/c/b", b"0", 1), Message("live/a/end", b"0", 1)])
        here.wait_until(lambda _: here.came["live/a/end"] > 0, "the end")
        came = numbers(here, "live/a/x")
        assert sorted(set(came)) == list(range(sent))
        assert "live/c/b" not in here.topics()
        assert node.bridge("live")["unmatched"] == 0  # what was joined is not subscribed to any more
