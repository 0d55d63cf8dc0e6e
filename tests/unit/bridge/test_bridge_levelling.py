"""Retained messages kept level with the remote: the record, and what a round of stored messages leads to."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.bridge.levelling import Levels, deletions
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.wire.packets import Pingreq, Pingresp, Publish, Suback, Subscribe, Subscription
from bridgehead.wire.reason import Reason
from making.remote import Remote, Visit
from making.rows import wire_rows
from making.span import Span, until

Spans = Callable[..., Span]
WISH = Subscription("in/#", 2, retain_as_published=True)


def came(engine: MemoryEngine, levels: Levels, **topics: bytes) -> None:
    changes = Changes()
    rows = [{"topic": topic, "payload": payload, "retain": True} for topic, payload in topics.items()]
    levels.came(changes, "r", wire_rows(*rows))
    engine.write(changes)


def test_what_did_not_come_in_a_round_is_missing() -> None:
    engine = MemoryEngine()
    levels = Levels(engine, ["r"])
    came(engine, levels, a=b"1", b=b"1", c=b"1")
    levels.begin()
    came(engine, levels, b=b"2", d=b"1")
    assert levels.end() == {"r": ["a", "c"]}
    assert levels.end() == {}


def test_an_empty_message_takes_its_topic_out_of_the_record() -> None:
    engine = MemoryEngine()
    levels = Levels(engine, ["r"])
    came(engine, levels, a=b"1", b=b"1")
    came(engine, levels, a=b"")
    levels.begin()
    assert levels.end() == {"r": ["b"]}


def test_the_record_is_found_again() -> None:
    engine = MemoryEngine()
    came(engine, Levels(engine, ["r"]), a=b"1", b=b"1")
    again = Levels(engine, ["r", "s"])
    again.begin()
    assert again.end() == {"r": ["a", "b"]}


def test_a_deletion_is_an_empty_retained_message() -> None:
    rows = deletions(["a", "b"]).to_pylist()
    assert [(row["topic"], row["payload"], row["qos"], row["retain"]) for row in rows] == [
        (topic, b"", 1, True) for topic in ("a", "b")
    ]
    assert {row["message_expiry"] for row in rows} == {None}


async def answer_pings(visit: Visit, count: int) -> None:
    for _ in range(count):
        await visit.next(Pingreq)
        visit.send(Pingresp())


def journalled(bridge: Span) -> list[tuple[str, bytes]]:
    pieces = bridge.log.read(0, bridge.log.visible)
    return [(row["topic"], row["payload"]) for _, batch in pieces for row in batch.to_pylist()]


async def test_after_a_reconnect_what_is_gone_there_is_deleted_here(remote: Remote, span: Spans) -> None:
    bridge = span(level=True, subscriptions=(WISH,))
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/a", b"1", 0, retain=True), Publish("in/b", b"1", 0, retain=True))
    await answer_pings(visit, 3)
    await until(lambda: bridge.uplink.status.subscribed)
    visit.cut()
    again = await remote.accept(session_present=True)
    assert (await again.granted()).subscriptions == [WISH]  # what is stored comes only with a subscription
    again.send(Publish("in/b", b"2", 0, retain=True))
    await answer_pings(again, 3)
    await until(lambda: len(journalled(bridge)) == 4)
    assert journalled(bridge) == [("in/a", b"1"), ("in/b", b"1"), ("in/b", b"2"), ("in/a", b"")]
    assert bridge.consumer.deleted == 1


async def test_nothing_is_deleted_while_a_subscription_is_refused(remote: Remote, span: Spans) -> None:
    bridge = span(level=True, subscriptions=(WISH,))
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/a", b"1", 0, retain=True))
    await answer_pings(visit, 3)
    await until(lambda: bridge.uplink.status.subscribed)
    visit.cut()
    again = await remote.accept()
    asked = await again.next(Subscribe)
    again.send(Suback(asked.packet_id, [Reason.NOT_AUTHORIZED]))
    await answer_pings(again, 2)
    await until(lambda: bridge.uplink.status.subscribed)
    assert bridge.uplink.status.subscribe_refused
    assert journalled(bridge) == [("in/a", b"1")]
