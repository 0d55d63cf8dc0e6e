"""What a pulled message waits in the node is taken off its expiry, wherever it waits; what is over comes to nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

KEPT = {"SessionExpiryInterval": 300}
LIFE, SHORT, WAIT = 100, 1, 1.2


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path / "remote").start()
    yield broker
    broker.stop()


def mortals(topic: str, qos: int) -> list[Message]:
    lives = (SHORT, LIFE, SHORT, LIFE)
    return [
        *(Message(topic, b"%d" % n, qos, properties={"MessageExpiryInterval": life}) for n, life in enumerate(lives)),
        Message(topic, b"immortal", qos),
    ]


def lives_of(client: Client, topic: str) -> dict[bytes, Any]:
    return {m.payload: m.properties.get("MessageExpiryInterval") for m in client.barrier() if m.topic == topic}


def as_promised(came: dict[bytes, Any]) -> bool:
    left = [came.get(payload) for payload in (b"1", b"3")]
    return list(came) == [b"1", b"3", b"immortal"] and all(LIFE / 2 < each <= LIFE - 1 for each in left)


def test_a_pulled_message_comes_with_the_time_that_is_left_and_not_when_that_is_over(remote: Mosquitto, tmp_path: Path) -> None:
    out = {"filters": ["que/#"], "destination": "out/{#}", "queueLimit": 1, "strategy": "refuse"}
    address = {"host": "127.0.0.1", "port": remote.port}
    bridges = [
        {"id": "in", **address, "remoteSubscriptions": [{"filters": ["sub/#"]}, {"filters": ["que/#"]}]},
        {"id": "out", **address, "localSubscriptions": [out], "loopPreventionEnabled": False},
    ]
    document = {"pipeline": {"engine": "inline"}, "bridges": bridges}
    with ExitStack() as stack:
        node = NodeProcess(tmp_path / "node", document)
        stack.callback(node.close)
        node.start()
        until(lambda: node.bridge("in")["subscribed"], "it is subscribed")
        transit(node, "STOP")
        until(lambda: node.bridge("out")["state"] == "stopped", "it has stopped")
        with Client(node.port, "5", "away", clean=False, connect=KEPT) as away:
            away.subscribe("sub/#", 1)
        here, there = (stack.enter_context(Client(port)) for port in (node.port, remote.port))
        here.subscribe("que/#")
        # One message fills the queue to the outside, and the pull route waits behind it with all that come after.
        there.publish_all([Message("que/x", b"first", 1), *mortals("que/mortal", 1), *mortals("sub/mortal", 1)])
        until(lambda: _route(node, "que/#")["depth"] == 5, "they wait in the pull queue", detail=node.status)
        until(lambda: _route(node, "sub/#")["delivered"] == 5, "they wait for a session", detail=node.status)
        began = time.monotonic()
        until(lambda: time.monotonic() - began > WAIT, "they wait")
        transit(node, "START")
        node.wait_drained()
        assert as_promised(lives_of(here, "que/mortal"))
        assert _route(node, "que/#")["dropped"] == {"expired": 2}
        with Client(node.port, "5", "away", clean=False, connect=KEPT) as away:
            assert away.session_present
            assert as_promised(lives_of(away, "sub/mortal"))


def transit(node: NodeProcess, command: str) -> None:
    """Stop or start the bridge to the outside."""
    status, _ = node.ask("PUT", "/api/v1/management/bridges/out/status", {"command": command})
    assert status == 200


def _route(node: NodeProcess, topic_filter: str) -> dict[str, Any]:
    [route] = [each for each in node.routes("in", "pull") if each["filters"] == [topic_filter]]
    return route
