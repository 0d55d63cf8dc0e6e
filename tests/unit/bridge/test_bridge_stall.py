"""Holes through which bridges of others have lost messages or stood still, each closed here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridgehead.bridge.backoff import Backoff
from bridgehead.wire.packets import Puback, Pubcomp, Publish, Pubrec
from making.remote import Remote
from making.span import Span, until

Spans = Callable[..., Span]


async def test_after_an_end_of_our_own_making_the_bridge_comes_back(remote: Remote, span: Spans) -> None:
    bridge = span(watchdog=0.1)
    for lives in range(1, 4):
        bridge.land(1)
        visit = await remote.accept(session_present=lives > 1)
        while await visit.read() is not None:
            pass  # nothing is answered: the watchdog ends it
        assert bridge.uplink.status.watchdog_resets == lives
    visit = await remote.accept(session_present=True)
    for one in await visit.publishes(3):
        visit.send(Puback(one.packet_id))
    await until(lambda: bridge.outboxes[0].delivered == 3)


async def test_acknowledgements_of_an_earlier_connection_never_make_a_counter_negative(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(3)
    visit = await remote.accept()
    await visit.publishes(3)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    again = await remote.accept(session_present=False)
    ids = [one.packet_id for one in await again.publishes(3)]
    unknown = [number for number in range(1, 20) if number not in ids]
    again.send(*[Puback(number) for number in unknown + ids + ids], Pubrec(ids[0]), Pubcomp(ids[0]))
    await until(lambda: bridge.outboxes[0].delivered == 3)
    bridge.land(1)
    packet = await again.read()
    while not isinstance(packet, Publish):
        packet = await again.read()
    assert (bridge.uplink.in_flight, bridge.outboxes[0].in_flight, bridge.outboxes[0].depth) == (1, 1, 1)
    assert bridge.sums_hold


async def test_the_resend_of_a_kept_session_is_the_only_one(remote: Remote, span: Spans) -> None:
    """Not once by the session and once more by the queue."""
    bridge = span()
    bridge.land(4, qos=2)
    visit = await remote.accept()
    await visit.publishes(4)
    visit.cut()
    again = await remote.accept(session_present=True)
    assert [(int(one.payload), one.dup) for one in await again.publishes(4)] == [(n, True) for n in range(4)]
    assert await again.silent()
    assert bridge.uplink.status.possibly_doubled == 0


async def test_a_stop_while_the_next_attempt_is_awaited_leaves_no_attempt_behind(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.uplink._backoff = Backoff(first=3600.0, longest=3600.0)
    visit = await remote.accept()
    visit.cut()
    await until(lambda: bridge.uplink.status.next_attempt is not None)
    await bridge.uplink.stop()
    assert bridge.uplink._task is not None
    assert bridge.uplink._task.done()
    assert bridge.uplink.status.state == "stopped"


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_cut_while_tier_2_is_being_sent_loses_nothing_of_it(remote: Remote, span: Spans, qos: int) -> None:
    bridge = span(tier2=1000, addresses=(("127.0.0.1", remote.port),))
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(300, qos=qos, content_type="x" * 50_000)
    visit = await remote.accept(session_present=True)
    visit.pause()
    await until(lambda: bridge.uplink.connected and not bridge.uplink.outgoing._link.writable)  # type: ignore[union-attr]
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    taken = bridge.outboxes[0].delivered
    assert taken == 0 or qos == 0
    again = await remote.accept(session_present=True)
    assert [int(one.payload) for one in await again.publishes(300 - taken)] == list(range(taken, 300))


async def test_rows_that_land_behind_waiting_ones_need_no_wake_up_of_their_own(remote: Remote, span: Spans) -> None:
    """The stall of a queue that only says so when its size becomes exactly one."""
    bridge = span()
    visit = await remote.accept(receive_maximum=1)
    bridge.land(1)
    bridge.land(1)
    first = (await visit.publishes(1))[0]
    bridge.land(3)
    seen = [first]
    while len(seen) < 5:
        visit.send(Puback(seen[-1].packet_id))
        seen += await visit.publishes(1)
    assert [int(one.payload) for one in seen] == list(range(5))


async def test_rows_that_land_behind_unacknowledged_ones_are_sent_without_waiting_for_them(remote: Remote, span: Spans) -> None:
    """The same stall from the other side: the queue is not empty, and no acknowledgement comes to wake anybody."""
    bridge = span()
    visit = await remote.accept()
    for number in range(3):
        bridge.land(1)
        assert [int(one.payload) for one in await visit.publishes(1)] == [number]
