"""The bridge matrix: QoS x direction x MQTT version of bridge and clients x engine, payloads from nothing to 5 MB."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scenarios.world import DIRECTIONS, World
from support.client import VERSIONS, Message

pytestmark = [pytest.mark.mosquitto, pytest.mark.xdist_group("world")]  # one world for both files

BRIDGES = {"5": "five", "3.1.1": "four"}
SIZES = (0, 1, 100, 64 * 1024, 1024 * 1024, 5_000_000)
NUMBERED = 120
EXPIRY = 3600
PROPERTIES: dict[str, Any] = {
    "PayloadFormatIndicator": 1,
    "MessageExpiryInterval": EXPIRY,
    "ContentType": "application/json",
    "ResponseTopic": "answers/here",
    "CorrelationData": b"\x00\xff\x01",
    "UserProperty": [("z", "1"), ("a", "2"), ("z", "3"), ("", "ü")],
}
HOPPED = [*PROPERTIES["UserProperty"], ("hmq-bridge-hop-count", "1")]


def flow(prefix: str, qos: int) -> list[Message]:
    """Numbered messages on three topics in turn, and between them one of each size."""
    chance = random.Random(qos)
    messages = [
        Message(f"{prefix}/numbered/{number % 3}", b"%06d" % number, qos, properties=PROPERTIES) for number in range(NUMBERED)
    ]
    for index, size in enumerate(SIZES):
        large = Message(f"{prefix}/sizes", chance.randbytes(size), qos, properties=PROPERTIES | {"PayloadFormatIndicator": 0})
        messages.insert((index + 1) * NUMBERED // (len(SIZES) + 1), large)
    return messages


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("client_version", VERSIONS)
@pytest.mark.parametrize("bridge_version", VERSIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_message_crosses_once_in_order_and_whole(
    world: World, direction: str, bridge_version: str, client_version: str, qos: int
) -> None:
    prefix = f"{world.engine}/{BRIDGES[bridge_version]}/{direction}/{client_version}/{qos}"
    sent = flow(prefix, qos)
    with world.clients(direction, client_version) as (source, target):
        target.subscribe(f"{prefix}/#")
        source.publish_all(sent)
        target.wait_for(len(sent))
        world.node.wait_drained()
        came = target.barrier()
    for topic in {message.topic for message in sent}:
        expected = [message.payload for message in sent if message.topic == topic]
        got = [message.payload for message in came if message.topic == topic]
        assert [len(payload) for payload in got] == [len(payload) for payload in expected]
        assert got == expected
    assert len(came) == len(sent)
    assert {message.qos for message in came} == {qos}
    assert not any(message.retain for message in came)
    for message in came:
        if client_version == "5" and bridge_version == "5":
            whole(message)
        elif client_version == "5" and direction == "pull":
            assert message.properties == {"UserProperty": HOPPED[-1:]}  # the hop joins behind the 3.1.1 leg
        else:
            assert not message.properties


def whole(message: Message) -> None:
    """Every property as it was sent; the expiry may have shrunk, the hop count has come last."""
    given = dict(message.properties)
    assert EXPIRY - 300 < given.pop("MessageExpiryInterval") <= EXPIRY
    assert given.pop("UserProperty") == HOPPED
    expected = PROPERTIES | {"PayloadFormatIndicator": given["PayloadFormatIndicator"]}
    assert given == {name: value for name, value in expected.items() if name in given}
    assert given.keys() == PROPERTIES.keys() - {"MessageExpiryInterval", "UserProperty"}
    assert given["PayloadFormatIndicator"] == (0 if message.topic.endswith("/sizes") else 1)
