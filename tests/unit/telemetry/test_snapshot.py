"""What a node shows of itself while messages cross it: the sums of every route hold at any moment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.app import Node
from bridgehead.clock import now_us
from bridgehead.wire.packets import Puback, Publish
from making.remote import Remote
from making.rows import numbered, wire_rows
from making.span import until


def routes(node: Node) -> dict[str, dict[str, Any]]:
    return {route["direction"]: route for route in node.view().snapshot()["routes"].values()}


def sums_hold(node: Node) -> bool:
    snapshot = node.view().snapshot()
    found = snapshot["routes"].values()
    waiting = sum(log["waiting"] for log in snapshot["journal"].values())
    outboxes = all(r["entered"] == r["delivered"] + sum(r["dropped"].values()) + r["depth"] for r in found)
    journal = all(r["received"] == r["consumed"] + sum(r["droppedBefore"].values()) + r["waiting"] for r in found)
    return outboxes and journal and waiting == sum(r["waiting"] for r in found)


async def test_a_push_is_seen_at_every_door(node: Node, remote: Remote) -> None:
    visit = await remote.accept(receive_maximum=2)
    await visit.granted()
    node.broker.publish(wire_rows(*numbered(0, 5, topic="out/a"), {"topic": "out/no/b"}, {"topic": "else"}), "machine")
    assert sums_hold(node)
    publishes = await visit.publishes(2)
    assert [(one.topic, one.payload) for one in publishes] == [("up/out/a", b"0"), ("up/out/a", b"1")]
    push = routes(node)["push"]
    assert (push["received"], push["droppedBefore"], push["entered"]) == (6, {"excluded": 1}, 5)
    assert (push["depth"], push["inFlight"], push["tier2"], push["delivered"]) == (5, 2, 0, 0)
    assert sums_hold(node)
    for one in publishes:
        visit.send(Puback(one.packet_id))
    await until(lambda: routes(node)["push"]["delivered"] == 2)
    assert sums_hold(node)


async def test_a_pull_is_seen_at_every_door(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    visit.send(*[Publish("in/x", str(i).encode(), 1, packet_id=i + 1) for i in range(3)])
    await until(lambda: routes(node)["pull"]["delivered"] == 3)
    snapshot = node.view().snapshot()
    assert snapshot["bridges"]["cloud"]["received"] == 3
    assert snapshot["broker"]["received"] == 3, "the local broker has published them"
    assert sums_hold(node)


async def test_while_the_remote_is_away_its_state_and_the_backlog_are_shown(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    visit.cut()
    await remote.stop()
    await until(lambda: node.view().snapshot()["bridges"]["cloud"]["state"] == "disconnected")
    node.broker.publish(wire_rows(*numbered(0, 4, topic="out/a")), "machine")
    await until(lambda: routes(node)["push"]["tier2"] == 4)
    bridge = node.view().snapshot()["bridges"]["cloud"]
    assert bridge["lastError"]
    assert bridge["lastErrorAt"].endswith("Z")
    assert bridge["connects"] == 1
    push = routes(node)["push"]
    assert (push["depth"], push["inFlight"]) == (4, 0)
    assert sums_hold(node)


async def test_the_oldest_age_is_that_of_the_first_message_that_waits(
    node: Node, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = await remote.accept(receive_maximum=1)
    await visit.granted()
    assert routes(node)["push"]["oldestAge"] is None
    now = now_us()
    for late in (50, 20):
        monkeypatch.setattr("bridgehead.broker.broker.now_us", lambda late=late: now - late * 1_000_000)
        node.broker.publish(wire_rows({"topic": "out/a"}), "machine")
    (first,) = await visit.publishes(1)
    assert 50 <= routes(node)["push"]["oldestAge"] < 60
    visit.send(Puback(first.packet_id))
    await until(lambda: routes(node)["push"]["delivered"] == 1)
    assert 20 <= routes(node)["push"]["oldestAge"] < 50


async def test_the_snapshot_is_plain_values(node: Node) -> None:
    assert json.loads(json.dumps(node.view().snapshot()))["node"] == "edge"


async def test_a_node_may_be_stopped_twice(node: Node) -> None:
    await node.stop()
    await node.stop()
