"""A bridge over MQTT 3.1.1 says in CONNECT that it is one, and does without where that is not understood."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.bridge.stored import QUIET_ROUNDS, StoredRound
from bridgehead.wire.packets import Connack, Connect, Pingreq, Pingresp, Puback, Publish
from bridgehead.wire.reason import Reason
from making.remote import Remote, Visit
from making.span import Span, until

Spans = Callable[..., Span]


async def answered(visit: Visit, pings: int) -> None:
    for _ in range(pings):
        await visit.next(Pingreq)
        visit.send(Pingresp())


async def test_a_bridge_says_that_it_is_one(remote: Remote, span: Spans) -> None:
    span(version=4, bridge_bit=True)
    visit = await remote.accept()
    assert (visit.connect.protocol_level, visit.connect.bridge_bit) == (4, True)


async def test_whoever_does_not_know_the_bit_is_asked_without_it_at_once_and_from_then_on(remote: Remote, span: Spans) -> None:
    bridge = span(version=4, bridge_bit=True)
    visit = await remote.visit()
    assert (await visit.next(Connect)).bridge_bit
    visit.send(Connack(False, Reason.UNSUPPORTED_PROTOCOL_VERSION))
    again = await remote.accept()
    assert not again.connect.bridge_bit
    await until(lambda: bridge.uplink.connected)
    assert bridge.uplink.status.last_error is None
    again.cut()
    assert not (await remote.accept()).connect.bridge_bit


async def test_whoever_hangs_up_is_asked_the_other_way_each_time(remote: Remote, span: Spans) -> None:
    span(version=4, bridge_bit=True)
    said = []
    for _ in range(4):
        visit = await remote.visit()
        said.append((await visit.next(Connect)).bridge_bit)
        visit.end()
    assert said == [True, False, True, False]


async def test_a_wrong_password_is_not_taken_for_a_word_about_the_bit(remote: Remote, span: Spans) -> None:
    span(version=4, bridge_bit=True)
    for _ in range(3):
        visit = await remote.visit()
        assert (await visit.next(Connect)).bridge_bit
        visit.send(Connack(False, Reason.BAD_USER_NAME_OR_PASSWORD))


async def test_to_a_bridge_stored_messages_come_behind_the_subscription_and_flagged_ones_after_them_are_new(
    remote: Remote, span: Spans
) -> None:
    bridge = span(pull=True, version=4, bridge_bit=True)
    visit = await remote.accept()
    await visit.granted()
    await visit.next(Pingreq)
    visit.send(Publish("in/a", b"stored", 1, retain=True, packet_id=1), Publish("in/a", b"new", 1, packet_id=2), Pingresp())
    assert [await visit.next(Puback) for _ in range(2)] == [Puback(1), Puback(2)]
    await visit.next(Pingreq)
    visit.send(Publish("in/b", b"stored", 1, retain=True, packet_id=3), Pingresp())
    assert await visit.next(Puback) == Puback(3)
    assert not bridge.uplink.status.subscribed
    await answered(visit, QUIET_ROUNDS)
    await until(lambda: bridge.uplink.status.subscribed)
    visit.send(Publish("in/a", b"kept there", 1, retain=True, packet_id=4))
    assert await visit.next(Puback) == Puback(4)
    assert bridge.journalled() == [b"new", b"kept there"]
    assert bridge.consumer.retained_skipped == 2


async def test_what_a_kept_session_holds_for_a_bridge_is_never_taken_for_stored(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True, version=4, bridge_bit=True)
    visit = await remote.accept(session_present=True)
    await visit.granted()
    visit.send(Publish("in/a", b"waited", 1, retain=True, packet_id=1))
    await until(lambda: bridge.journalled() == [b"waited"])


def test_a_round_is_over_after_two_answers_without_a_stored_message() -> None:
    stored = StoredRound()
    stored.answered(3)
    assert not stored.running
    stored.begin(3)
    came = [5, 5, 6, 6]
    for seen in came:
        stored.answered(seen)
        assert stored.running
    stored.answered(6)
    assert not stored.running
