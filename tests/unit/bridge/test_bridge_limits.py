"""What the remote allows is kept at all times: Receive Maximum, Maximum Packet Size, its keep alive."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from bridgehead.bridge.outgoing import SEND_ROWS
from bridgehead.wire.packets import Connect, Pingreq, Puback, Pubcomp, Publish, Pubrec, Pubrel
from making.remote import Remote, Visit
from making.span import Span, until

Spans = Callable[..., Span]


async def drain(visit: Visit, total: int, most: int) -> list[int]:
    """Acknowledge one message after the other, and hold the uplink to ``most`` unacknowledged ones."""
    waiting: list[Publish] = []
    seen: list[int] = []
    done = 0
    while done < total:
        while not await visit.silent():
            packet = await visit.next(Publish)
            waiting.append(packet)
            seen.append(int(packet.payload))
            assert len(waiting) <= most
        assert waiting, "the uplink sends less than it may"
        one = waiting.pop(0)
        if one.qos == 1:
            visit.send(Puback(one.packet_id))
        else:
            visit.send(Pubrec(one.packet_id))
            assert await visit.next(Pubrel) == Pubrel(one.packet_id)
            assert await visit.silent(), "PUBREC frees no room, PUBCOMP does"
            visit.send(Pubcomp(one.packet_id))
        done += 1
    return seen


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("qos", [1, 2])
async def test_the_receive_maximum_of_the_remote_is_never_exceeded(remote: Remote, span: Spans, most: int, qos: int) -> None:
    bridge = span()
    bridge.land(25, qos=qos)
    visit = await remote.accept(receive_maximum=most)
    assert await drain(visit, 25, most) == list(range(25))
    await until(lambda: bridge.outboxes[0].delivered == 25)


async def test_a_receive_maximum_that_has_shrunk_holds_for_what_is_sent_again_too(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(100)
    visit = await remote.accept()
    await visit.publishes(100)
    visit.cut()
    again = await remote.accept(session_present=True, receive_maximum=3)
    assert await drain(again, 100, 3) == list(range(100))
    await until(lambda: bridge.outboxes[0].delivered == 100)


async def test_a_whole_window_is_sent_again_in_order_and_new_rows_follow(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(300)
    visit = await remote.accept()
    await visit.publishes(300)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(5)
    again = await remote.accept(session_present=True)
    publishes = await again.publishes(305)
    assert [int(one.payload) for one in publishes] == list(range(305))
    assert [one.dup for one in publishes] == [True] * 300 + [False] * 5


async def test_a_message_larger_than_the_remote_takes_is_a_dead_letter_and_the_others_flow(
    remote: Remote, span: Spans
) -> None:
    bridge = span()
    visit = await remote.accept(maximum_packet_size=500)
    bridge.land(1)
    bridge.land(1, content_type="x" * 600)
    bridge.land(1)
    assert [int(one.payload) for one in await visit.publishes(2)] == [0, 2]
    assert bridge.outboxes[0].dead_lettered == {"too-large": 1}
    assert bridge.sums_hold


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_that_became_too_large_while_it_was_in_flight_does_not_block_the_bridge(
    remote: Remote, span: Spans, qos: int
) -> None:
    bridge = span()
    visit = await remote.accept()
    bridge.land(1, qos=qos)
    bridge.land(1, qos=qos, content_type="x" * 600)
    bridge.land(1, qos=qos)
    await visit.publishes(3)
    visit.cut()
    again = await remote.accept(session_present=True, maximum_packet_size=500)
    if qos == 2:  # the remote may hold it half-way: its id is not free before that is settled
        assert await again.next(Pubrel) == Pubrel(2)
    assert [int(one.payload) for one in await again.publishes(2)] == [0, 2]
    assert bridge.outboxes[0].dead_lettered == {"refused-0x95": 1}
    again.send(Pubcomp(2))
    await until(lambda: bridge.uplink.in_flight == 2)
    assert bridge.sums_hold


async def test_over_3_1_1_no_more_than_20_qos_2_messages_are_in_flight(remote: Remote, span: Spans) -> None:
    bridge = span(version=4)
    bridge.land(50, qos=2)
    visit = await remote.accept()
    assert await drain(visit, 50, 20) == list(range(50))
    await until(lambda: bridge.outboxes[0].delivered == 50)


async def test_two_routes_share_the_window_turn_by_turn(remote: Remote, span: Spans) -> None:
    bridge = span(routes=2)
    bridge.land(1000, route=0)
    bridge.land(5, route=1)
    visit = await remote.accept(receive_maximum=4)
    topics = []
    for _ in range(24):
        packet = await visit.next(Publish)
        topics.append(packet.topic)
        visit.send(Puback(packet.packet_id))
    assert topics.count("t1") == 5, "the backlog of one route starves the other"


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_route_with_a_long_backlog_lets_the_other_in_after_every_turn(remote: Remote, span: Spans, qos: int) -> None:
    """Measured by who comes when, not by time: the window is wide open and one route could fill it alone."""
    bridge = span(routes=2)
    backlog = 3 * SEND_ROWS
    bridge.land(backlog, route=0, qos=qos)
    bridge.land(2 * SEND_ROWS, route=1, qos=qos)
    visit = await remote.accept()
    topics = [one.topic for one in await visit.publishes(4 * SEND_ROWS)]
    turns = [(topic, len(list(run))) for topic, run in itertools.groupby(topics)]
    assert [topic for topic, _ in turns[:4]] in (["t0", "t1"] * 2, ["t1", "t0"] * 2)
    assert all(rows <= SEND_ROWS for _, rows in turns[:4])


async def test_the_keep_alive_of_the_server_counts_and_a_silent_server_is_left(remote: Remote, span: Spans) -> None:
    bridge = span(keep_alive=60)
    visit = await remote.accept(server_keep_alive=1)
    assert (await visit.next(Pingreq)) == Pingreq()
    while await visit.read() is not None:
        pass  # more pings, none of them answered
    await until(lambda: bridge.uplink.status.last_error is not None)
    assert "silent" in str(bridge.uplink.status.last_error)


async def test_without_a_keep_alive_nobody_pings(remote: Remote, span: Spans) -> None:
    span(keep_alive=0)
    visit = await remote.visit()
    assert (await visit.next(Connect)).keep_alive == 0
