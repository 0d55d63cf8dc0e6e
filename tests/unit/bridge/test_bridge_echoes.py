"""What a remote of MQTT 3.1.1 sends back to whom it does not know for a bridge: each entry cancels one echo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridgehead.bridge.echoes import EchoWindow
from bridgehead.columns.batches import Batch
from bridgehead.wire.packets import Connack, Connect, Puback, Publish
from bridgehead.wire.reason import Reason
from making.remote import Remote, Visit
from making.rows import outbox_rows
from making.span import Span, until

Spans = Callable[..., Span]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def rows(*pairs: tuple[str, bytes]) -> Batch:
    return outbox_rows(*({"topic": topic, "payload": payload} for topic, payload in pairs))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def window(clock: Clock) -> EchoWindow:
    return EchoWindow(["in/#", "both/+"], entries=4, seconds=10.0, clock=clock)


def echoes(window: EchoWindow, *pairs: tuple[str, bytes]) -> list[bool]:
    found = window.echoes(rows(*pairs))
    return [False] * len(pairs) if found is None else found.tolist()


def test_each_entry_cancels_one_message_with_its_topic_and_payload(window: EchoWindow) -> None:
    window.sent(rows(("in/a", b"1"), ("in/a", b"2"), ("in/a", b"1")))
    came = [("in/a", b"1"), ("in/b", b"1"), ("in/a", b"1"), ("in/a", b"1"), ("in/a", b"2"), ("in/a", b"2")]
    assert echoes(window, *came) == [True, False, True, False, True, False]
    assert len(window) == 0


def test_topics_that_the_bridge_does_not_subscribe_to_are_not_remembered(window: EchoWindow) -> None:
    window.sent(rows(("out/a", b"1"), ("both/a/b", b"1")))
    assert len(window) == 0
    window.sent(rows(("both/a", b"1")))
    assert len(window) == 1


def test_where_a_topic_ends_and_its_payload_begins_is_not_mistaken(window: EchoWindow) -> None:
    window.sent(rows(("in/ab", b"c")))
    assert echoes(window, ("in/a", b"bc"), ("in/abc", b"")) == [False, False]


def test_entries_grow_old(window: EchoWindow, clock: Clock) -> None:
    window.sent(rows(("in/a", b"1")))
    clock.now += 5
    window.sent(rows(("in/a", b"1")))
    clock.now += 6
    assert echoes(window, ("in/a", b"1"), ("in/a", b"1")) == [True, False]


def test_a_full_window_forgets_the_oldest_and_counts_it(window: EchoWindow) -> None:
    window.sent(rows(*(("in/a", b"%d" % n) for n in range(6))))
    assert window.forgotten == 2
    assert echoes(window, *(("in/a", b"%d" % n) for n in range(6))) == [False, False, True, True, True, True]


def test_what_did_not_leave_takes_its_entry_with_it(window: EchoWindow) -> None:
    window.sent(rows(("in/a", b"1"), ("in/a", b"1")))
    window.unsent(rows(("in/a", b"1"), ("out/a", b"1")))
    assert echoes(window, ("in/a", b"1"), ("in/a", b"1")) == [True, False]


def test_a_session_that_was_kept_brings_its_echoes_however_long_we_were_away(window: EchoWindow, clock: Clock) -> None:
    window.sent(rows(("in/a", b"1"), ("in/a", b"1")))
    clock.now += 1000
    window.resumed()
    assert echoes(window, ("in/a", b"1")) == [True]
    window.session_lost()
    assert echoes(window, ("in/a", b"1")) == [False]


# -- on a connection ---------------------------------------------------------------------------------------------------


async def without_bit(remote: Remote, *, session_present: bool = False) -> Visit:
    """The remote does not know the bridge bit; the first who comes with it is sent away."""
    first = await remote.visit()
    connect = await first.next(Connect)
    if connect.bridge_bit:
        first.send(Connack(False, Reason.UNSUPPORTED_PROTOCOL_VERSION))
        return await remote.accept(session_present=session_present)
    first.send(Connack(session_present, Reason.SUCCESS))
    return first


async def test_an_echo_is_acknowledged_counted_and_goes_no_further(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True, version=4, bridge_bit=True)
    visit = await without_bit(remote)
    await visit.granted()
    bridge.land(1, topic="in/x", payload=b"same")
    [sent] = await visit.publishes(1)
    visit.send(Puback(sent.packet_id), Publish("in/x", b"same", 1, packet_id=1), Publish("in/x", b"same", 1, packet_id=2))
    assert [await visit.next(Puback) for _ in range(2)] == [Puback(1), Puback(2)]
    assert bridge.journalled() == [b"same"], "one is ours, the other is somebody's"
    assert bridge.consumer.echoes_skipped == 1


async def test_an_echo_that_a_kept_session_brings_later_is_known_and_a_resent_message_counts_once(
    remote: Remote, span: Spans
) -> None:
    bridge = span(pull=True, version=4, bridge_bit=True)
    visit = await without_bit(remote)
    await visit.granted()
    bridge.land(1, topic="in/x", payload=b"same")
    await visit.publishes(1)
    visit.cut()
    again = await without_bit(remote, session_present=True)
    [resent] = await again.publishes(1)
    assert resent.dup
    again.send(Puback(resent.packet_id), Publish("in/x", b"same", 1, packet_id=1), Publish("in/x", b"same", 1, packet_id=2))
    await until(lambda: bridge.consumer.received == 2)
    assert bridge.consumer.echoes_skipped == 1
    assert bridge.journalled() == [b"same"]


@pytest.mark.parametrize("given", [{"version": 4}, {"version": 5}])
async def test_without_no_local_what_comes_back_is_a_message_like_any_other(
    remote: Remote, span: Spans, given: dict[str, int]
) -> None:
    bridge = span(pull=True, **given)
    visit = await remote.accept()
    await visit.granted()
    bridge.land(1, topic="in/x", payload=b"same")
    await visit.publishes(1)
    visit.send(Publish("in/x", b"same", 1, packet_id=1))
    assert await visit.next(Puback) == Puback(1)
    assert bridge.journalled() == [b"same"]
