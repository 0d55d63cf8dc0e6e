"""What crosses a bridge of MQTT 5, in both directions: every field of a message, however large, and nothing that belongs to one
connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.raw import connect_packet, packet, read_packet, text
from support.waiting import PATIENCE

pytestmark = pytest.mark.mosquitto

HOP = ("hmq-bridge-hop-count", "1")
EXPIRY = 3600
SUBSCRIBE, SUBACK, PUBLISH, PUBACK, DUP = 0x82, 0x90, 0x32, 0x40, 0x08
both_ways = pytest.mark.parametrize("direction", ["push", "pull"])
Ends = tuple[int, int]


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    def rules(way: str) -> list[dict[str, Any]]:
        # Filters that overlap in part: the bridge's own subscriptions have identifiers.
        return [{"filters": [f"cross/{way}/#", f"+/{way}/x"], "preserveRetain": True}, {"filters": [f"plain/{way}/#"]}]

    bridge = {
        "id": "crossing",
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": rules("push"),
        "remoteSubscriptions": rules("pull"),
    }
    node = NodeProcess(tmp_path_factory.mktemp("crossing"), {"pipeline": {"engine": "inline"}, "bridges": [bridge]}).start()
    yield node
    node.close()


def ends(node: NodeProcess, remote: Mosquitto, direction: str) -> Ends:
    """The port to publish at, and the one to subscribe at."""
    return (node.port, remote.port) if direction == "push" else (remote.port, node.port)


@both_ways
@pytest.mark.parametrize("retain", [True, False])
@pytest.mark.parametrize("size", [0, 1, 5 << 20])
def test_every_field_crosses_whatever_the_size(
    node: NodeProcess, remote: Mosquitto, direction: str, size: int, retain: bool
) -> None:
    source_port, target_port = ends(node, remote, direction)
    topic = f"cross/{direction}/{size}/{retain}"
    many = [(f"key {number % 7}", f"värde {number}") for number in range(200)]
    given = {
        "MessageExpiryInterval": EXPIRY,
        "PayloadFormatIndicator": 1,
        "ContentType": "text/plain; charset=utf-8",
        "ResponseTopic": "re/ply/to",
        "CorrelationData": b"\x00\xff\x01" * 100,
        "UserProperty": many,
    }
    with Client(source_port) as source, Client(target_port) as target:
        target.subscribe(topic, retainAsPublished=True)
        source.publish_all([Message(topic, b"p" * size, 1, retain, given)])
        [came] = target.wait_for(1)
        source.publish_all([Message(topic, b"", 1, retain=True)])  # nothing stays for others
        target.wait_for(2)
    assert (came.payload, came.qos, came.retain) == (b"p" * size, 1, retain)
    found = dict(came.properties)
    assert EXPIRY - 300 < found.pop("MessageExpiryInterval") <= EXPIRY
    assert found.pop("UserProperty") == [*many, HOP], "in their order, the hop count behind them"
    assert found == {name: value for name, value in given.items() if name not in ("MessageExpiryInterval", "UserProperty")}


@both_ways
def test_subscription_identifiers_do_not_cross(node: NodeProcess, remote: Mosquitto, direction: str) -> None:
    source_port, target_port = ends(node, remote, direction)
    topic = f"cross/{direction}/x"  # both filters match: the remote names both of the bridge's subscriptions
    with Client(source_port) as source, Client(target_port) as target, Client(target_port) as unnamed:
        target.subscribe(topic, identifier=77)
        unnamed.subscribe(topic)
        source.publish_all([Message(topic, b"", 1)])
        assert [message.properties["SubscriptionIdentifier"] for message in target.wait_for(1)] == [[77]]
        assert ["SubscriptionIdentifier" in message.properties for message in unnamed.wait_for(1)] == [False]
        node.wait_drained()
        assert len(target.barrier()) == 1


@both_ways
def test_a_message_that_came_with_dup_leaves_without(node: NodeProcess, remote: Mosquitto, direction: str) -> None:
    topic = f"plain/{direction}/dup"
    with (
        socket.create_connection(("127.0.0.1", ends(node, remote, direction)[0]), timeout=PATIENCE) as source,
        socket.create_connection(("127.0.0.1", ends(node, remote, direction)[1]), timeout=PATIENCE) as target,
    ):
        for name, each in (("source", source), ("target", target)):
            each.sendall(connect_packet(4, f"{name}-{direction}"))
            assert read_packet(each)[0] == 0x20
        target.sendall(packet(SUBSCRIBE, b"\0\1" + text(topic) + b"\1"))
        assert read_packet(target)[0] == SUBACK
        source.sendall(packet(PUBLISH | DUP, text(topic) + b"\0\7" + b"again"))
        assert read_packet(source)[0] == PUBACK
        first, body = read_packet(target)
    assert (first, body[-5:]) == (PUBLISH, b"again")
