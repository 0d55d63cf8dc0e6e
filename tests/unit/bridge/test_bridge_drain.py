"""Drain control: a pace that is kept exactly over time and shared between routes, and lanes for what is live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.bridge.pace import BURST, SLICE, Pace
from bridgehead.wire.packets import Puback, Publish
from making.remote import Remote, Visit
from making.span import Span, until

Spans = Callable[..., Span]


@given(st.floats(0.1, 1e6), st.lists(st.floats(0, 5), min_size=1, max_size=50))
def test_however_often_it_is_asked_no_more_leaves_than_the_rate_and_one_burst(rate: float, steps: list[float]) -> None:
    pace, now, spent = Pace(rate), 0.0, 0
    for step in steps:
        now += step
        allowed = pace.allowance(now)
        pace.spend(allowed)
        spent += allowed
    assert spent <= rate * now + max(rate * BURST, 1) + 1e-3


@given(st.floats(0.5, 1e5), st.integers(1, 300))
def test_who_comes_when_it_is_due_gets_the_whole_rate(rate: float, rounds: int) -> None:
    pace, now, spent = Pace(rate), 0.0, 0
    for _ in range(rounds):
        allowed = pace.allowance(now)
        pace.spend(allowed)
        spent += allowed
        now = max(pace.due, now)
    assert spent >= rate * now - max(rate * SLICE, 1) - 1e-3


def test_what_was_spent_in_advance_is_waited_for() -> None:
    pace = Pace(10)
    pace.allowance(0.0)
    pace.spend(21)
    assert pace.allowance(1.9) == 0
    assert pace.allowance(2.1) == 1


async def test_messages_leave_at_the_pace_of_the_bridge(remote: Remote, span: Spans) -> None:
    bridge = span(rate_limit=200)
    visit = await remote.accept()
    started = asyncio.get_running_loop().time()
    bridge.land(60, qos=0)
    assert [each.payload for each in await visit.publishes(60)] == [b"%d" % number for number in range(60)]
    assert asyncio.get_running_loop().time() - started >= (60 - 1 - 200 * BURST) / 200
    await until(lambda: bridge.outboxes[0].depth == 0)


async def test_what_is_sent_again_counts(remote: Remote, span: Spans) -> None:
    bridge = span(rate_limit=100)
    visit = await remote.accept()
    bridge.land(20, qos=1)
    await visit.publishes(20)
    visit.cut()
    again = await remote.accept(session_present=True)
    started = asyncio.get_running_loop().time()
    bridge.land(20, qos=1)
    came = await again.publishes(40)
    assert [each.dup for each in came] == [True] * 20 + [False] * 20
    assert asyncio.get_running_loop().time() - started >= (40 - 1 - 64) / 100 + 0.2  # at least the new ones waited


async def test_routes_share_the_pace(remote: Remote, span: Spans) -> None:
    bridge = span(rate_limit=300, routes=3)
    visit = await remote.accept()
    for route in range(3):
        bridge.land(1000, route=route, qos=0)
    came = [each.topic for each in await visit.publishes(90)]
    assert min(came.count(f"t{route}") for route in range(3)) >= 20


async def test_a_pause_of_the_pace_is_no_stall(remote: Remote, span: Spans) -> None:
    bridge = span(rate_limit=0.001)
    visit = await remote.accept()
    bridge.land(2, qos=0)
    await visit.publishes(1)
    await until(lambda: bridge.outboxes[0].depth == 1)
    assert bridge.forwarders[0].has_rows
    assert not bridge.uplink.outgoing.work().waiting


# -- lanes --------------------------------------------------------------------------------------------------------------


def numbers(came: list[Publish]) -> list[int]:
    return [int(each.payload) for each in came]


async def acknowledge(visit: Visit, came: list[Publish]) -> None:
    visit.send(*(Puback(each.packet_id) for each in came))


async def drained(visit: Visit, bridge: Span, came: list[Publish], total: int) -> list[int]:
    """Everything, acknowledged one by one as it comes."""
    await acknowledge(visit, came)
    while len(came) < total:
        [one] = await visit.publishes(1)
        came.append(one)
        await acknowledge(visit, [one])
    await until(lambda: all(outbox.depth == 0 for outbox in bridge.outboxes))
    return numbers(came)


@pytest.mark.parametrize("tier2", [10, 10_000])
async def test_what_is_live_overtakes_what_waited_and_each_lane_keeps_its_order(
    remote: Remote, span: Spans, tier2: int
) -> None:
    bridge = span(live_first=True, tier2=tier2)
    bridge.land(100, qos=1)
    visit = await remote.accept(receive_maximum=20)
    came = await visit.publishes(15)  # a quarter of the window is for what is live
    assert numbers(came) == list(range(15))
    assert await visit.silent()
    bridge.land(30, qos=1)
    came += await visit.publishes(5)
    assert numbers(came)[15:] == list(range(100, 105))
    order = await drained(visit, bridge, came, 130)
    assert [number for number in order if number < 100] == list(range(100))
    assert [number for number in order if number >= 100] == list(range(100, 130))
    assert order.index(129) < order.index(60)
    assert bridge.sums_hold


async def test_live_rows_of_one_route_go_before_the_backlog_of_another(remote: Remote, span: Spans) -> None:
    bridge = span(live_first=True, routes=2)
    bridge.land(100, qos=1)
    visit = await remote.accept(receive_maximum=20)
    came = await visit.publishes(15)
    bridge.land(10, route=1, qos=1)
    came += await visit.publishes(5)
    await acknowledge(visit, came)
    came = await visit.publishes(5)
    assert [each.topic for each in came] == ["t1"] * 5


async def test_what_was_live_and_not_sent_waits_in_its_place_when_the_connection_ends(remote: Remote, span: Spans) -> None:
    bridge = span(live_first=True)
    bridge.land(30, qos=1)
    visit = await remote.accept(receive_maximum=8)
    await visit.publishes(6)
    bridge.land(10, qos=1)
    await visit.publishes(2)
    visit.cut()
    again = await remote.accept()  # the session is lost: all of it waits, and is a backlog now
    order = await drained(again, bridge, [], 40)
    assert order == list(range(40))
    assert bridge.sums_hold


async def test_refused_rows_and_lanes_go_together(remote: Remote, span: Spans) -> None:
    """A refused row holds its topic back, in both lanes; nothing is lost and nothing stays."""
    from bridgehead.wire.reason import Reason

    bridge = span(live_first=True)
    bridge.land(20, qos=1)
    visit = await remote.accept(receive_maximum=8)
    came = await visit.publishes(6)
    bridge.land(20, qos=1)
    live = await visit.publishes(2)
    visit.send(Puback(live[0].packet_id, Reason.QUOTA_EXCEEDED))
    came.append(live[1])
    order = await drained(visit, bridge, came, 40)
    assert sorted(order) == list(range(40))
    assert bridge.sums_hold
