"""A bridge both ways on the same topics: what it sent does not come back, whatever the remote broker knows about bridges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import until

pytestmark = pytest.mark.mosquitto

CONNECT = 1
WAYS = {"no-local": 5, "bridge-bit": "3.1.1", "echo-window": "3.1.1"}
EQUAL = 20
STORED = 50  # more than a window of the remote


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("echoes"), window=20).start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """For each way not to get one's own messages back, a bridge with its own topics; the remote has stored messages of all."""
    with Client(remote.port) as before:
        kept = [(f"{way}/stored/{number}", number % 2) for way in WAYS for number in range(STORED)]
        before.publish_all([Message(topic, b"old", qos, retain=True) for topic, qos in kept])
    with ExitStack() as stack:
        # A broker that hangs up on the bridge bit: the first CONNECT has it, and is the last that has.
        wire = Proxy(remote.port).open()
        stack.callback(wire.close)
        wire.at(CONNECT, wire.cut, way="out")
        bridges = [
            {
                "id": way,
                "host": "127.0.0.1",
                "port": wire.port if way == "echo-window" else remote.port,
                "mqttVersion": version,
                "localSubscriptions": [{"filters": [f"{way}/#"]}],
                "remoteSubscriptions": [{"filters": [f"{way}/#"], "preserveRetain": True}],
            }
            for way, version in WAYS.items()
        ]
        document = {"pipeline": {"engine": "inline"}, "bridges": bridges}
        node = NodeProcess(tmp_path_factory.mktemp("node"), document).start()
        stack.callback(node.close)
        yield node


@pytest.mark.parametrize("way", WAYS)
def test_what_was_sent_does_not_come_back_and_equal_messages_of_others_do_come(
    node: NodeProcess, remote: Mosquitto, way: str
) -> None:
    with Client(node.port) as here, Client(remote.port) as there:
        for client in (here, there):
            client.subscribe(f"{way}/same/#")
        for number in range(EQUAL):  # one here, one there, alike in all that can be seen
            for client in (here, there):
                client.publish_all([Message(f"{way}/same/{number % 2}", b"equal", number % 3)])
        for client in (here, there):
            client.wait_for(2 * EQUAL)
        node.wait_drained()
        echoes = EQUAL if way == "echo-window" else 0
        until(lambda: node.bridge(way)["echoesSkipped"] == echoes, "every echo has come, if any come at all")
        assert len(here.barrier()) == len(there.barrier()) == 2 * EQUAL


@pytest.mark.parametrize("way", ["no-local", "bridge-bit"])
def test_a_new_message_of_the_remote_stays_a_retained_one(node: NodeProcess, remote: Mosquitto, way: str) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        here.subscribe(f"{way}/kept/#")
        there.publish_all([Message(f"{way}/kept/a", b"on", 1, retain=True)])
        here.wait_for(1)
        with Client(node.port) as later:
            later.subscribe(f"{way}/kept/#")
            assert [(message.payload, message.retain) for message in later.barrier()] == [(b"on", True)]


@pytest.mark.parametrize("way", WAYS)
def test_what_the_remote_had_stored_before_is_not_fetched(node: NodeProcess, way: str) -> None:
    assert node.bridge(way)["retainedSkipped"] == (0 if way == "no-local" else STORED)
    with Client(node.port) as here:
        here.subscribe(f"{way}/stored/#")
        assert here.barrier() == []
