"""A remote that refuses messages: they are tried again at their time or become dead letters, and everything else flows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridgehead.bridge.poison import Poison
from bridgehead.wire.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from bridgehead.wire.reason import Reason
from making.remote import Remote, Visit
from making.rows import numbers
from making.span import Span, until

Spans = Callable[..., Span]


def refuse(visit: Visit, publish: Publish, reason: Reason) -> None:
    visit.send(Puback(publish.packet_id, reason) if publish.qos == 1 else Pubrec(publish.packet_id, reason))


def accept(visit: Visit, publish: Publish) -> None:
    visit.send(Puback(publish.packet_id) if publish.qos == 1 else Pubrec(publish.packet_id))


async def next_publish(visit: Visit) -> Publish:
    """The next PUBLISH; what is due to accepted ones of QoS 2 meanwhile is done."""
    while not isinstance(packet := await visit.read(), Publish):
        assert isinstance(packet, Pubrel), packet
        visit.send(Pubcomp(packet.packet_id))
    return packet


async def delivered(bridge: Span, visit: Visit, count: int) -> None:
    """So many rows of the first route are delivered."""
    while bridge.outboxes[0].in_flight and bridge.uplink.in_flight and bridge.outboxes[0].delivered < count:
        if not await visit.silent():
            visit.send(Pubcomp((await visit.next(Pubrel)).packet_id))
    await until(lambda: bridge.outboxes[0].delivered == count)


def payloads(publishes: list[Publish]) -> list[int]:
    return [int(one.payload) for one in publishes]


def buried(bridge: Span, route: int = 0) -> list[tuple[int, str, int]]:
    """(number, reason, attempts) of the dead letters of a route."""
    found = []
    for _, batch in bridge.outboxes[route].dead.rows():
        found += zip(numbers(batch), batch.column("reason").to_pylist(), batch.column("attempts").to_pylist(), strict=True)
    return found


@pytest.mark.parametrize("reason", [0x87, 0x90, 0x95, 0x99])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_refused_for_good_is_a_dead_letter_at_once_and_the_others_flow(
    remote: Remote, span: Spans, qos: int, reason: int
) -> None:
    bridge = span()
    bridge.land(3, qos=qos)
    visit = await remote.accept()
    one, two, three = await visit.publishes(3)
    accept(visit, one)
    # Codes that MQTT does not give to these packets are understood all the same.
    visit._writer.write(bytes([0x40 if qos == 1 else 0x50, 3, 0, two.packet_id, reason]))
    accept(visit, three)
    await delivered(bridge, visit, 2)
    await until(lambda: bridge.outboxes[0].depth == 0)
    assert bridge.outboxes[0].dead_lettered == {f"refused-{reason:#04x}": 1}
    assert buried(bridge) == [(1, f"refused-{reason:#04x}", 1)]
    assert bridge.uplink.in_flight == 0
    assert bridge.sums_hold


@pytest.mark.parametrize("reason", [Reason.UNSPECIFIED_ERROR, Reason.IMPLEMENTATION_SPECIFIC_ERROR, Reason.QUOTA_EXCEEDED])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_refused_for_now_is_tried_again_and_later_ones_of_its_topic_wait_in_order(
    remote: Remote, span: Spans, qos: int, reason: Reason
) -> None:
    bridge = span()
    visit = await remote.accept()
    bridge.land(1, qos=qos)
    refuse(visit, await next_publish(visit), reason)
    await until(lambda: bridge.forwarders[0].poison.holding)
    bridge.land(3, qos=qos)
    bridge.land(1, qos=qos, topic="other")
    came: dict[str, list[int]] = {"t0": [], "other": []}
    refusals = 2
    while sum(map(len, came.values())) < 5:
        one = await next_publish(visit)
        assert not one.dup, "a try is a new message with a new packet id"
        if one.topic == "t0" and refusals:
            refusals -= 1
            assert one.payload == b"0", "nothing overtakes the refused one"
            refuse(visit, one, reason)
        else:
            came[one.topic].append(int(one.payload))
            accept(visit, one)
    assert came == {"t0": [0, 1, 2, 3], "other": [4]}
    await delivered(bridge, visit, 5)
    assert bridge.forwarders[0].poison.reordered == 0
    assert bridge.outboxes[0].dead_lettered == {}
    assert bridge.sums_hold


async def test_after_the_last_try_the_message_is_a_dead_letter_and_the_others_follow(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.forwarders[0].poison = Poison((0.001, 0.002))
    bridge.land(1)
    visit = await remote.accept()
    refuse(visit, await next_publish(visit), Reason.QUOTA_EXCEEDED)
    await until(lambda: bridge.forwarders[0].poison.holding)
    bridge.land(2)
    for _ in range(2):
        one = await next_publish(visit)
        assert one.payload == b"0"
        refuse(visit, one, Reason.QUOTA_EXCEEDED)
    for one in await visit.publishes(2):
        accept(visit, one)
    await until(lambda: bridge.outboxes[0].depth == 0)
    assert buried(bridge) == [(0, "refused-0x97", 3)]
    assert bridge.outboxes[0].delivered == 2
    assert bridge.sums_hold


async def test_what_had_left_behind_a_refused_message_is_counted_as_reordered(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(4)
    bridge.land(1, topic="other")
    visit = await remote.accept()
    first, *others = await visit.publishes(5)
    refuse(visit, first, Reason.QUOTA_EXCEEDED)
    for one in others:
        accept(visit, one)
    accept(visit, await next_publish(visit))
    await until(lambda: bridge.outboxes[0].delivered == 5)
    assert bridge.forwarders[0].poison.reordered == 3
    assert bridge.sums_hold


@pytest.mark.parametrize("session_present", [True, False])
async def test_after_a_cut_tries_and_what_waits_behind_them_go_on_in_order(
    remote: Remote, span: Spans, session_present: bool
) -> None:
    bridge = span()
    bridge.land(1)
    visit = await remote.accept()
    refuse(visit, await next_publish(visit), Reason.QUOTA_EXCEEDED)
    await until(lambda: bridge.forwarders[0].poison.holding)
    bridge.land(2)
    assert payloads(await visit.publishes(1)) == [0]
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(1)
    bridge.land(1, topic="other")
    again = await remote.accept(session_present=session_present)
    came: dict[str, list[int]] = {"t0": [], "other": []}
    while sum(map(len, came.values())) < 5:
        one = await next_publish(again)
        came[one.topic].append(int(one.payload))
        accept(again, one)
    assert came == {"t0": [0, 1, 2, 3], "other": [4]}
    await until(lambda: bridge.outboxes[0].delivered == 5)
    assert bridge.sums_hold


async def test_when_too_many_wait_the_route_stops_and_other_routes_flow(remote: Remote, span: Spans) -> None:
    bridge = span(routes=2)
    bridge.forwarders[0].poison = Poison((0.2,), most=3)
    bridge.land(1)
    visit = await remote.accept()
    refuse(visit, await next_publish(visit), Reason.QUOTA_EXCEEDED)
    await until(lambda: bridge.forwarders[0].poison.holding)
    bridge.land(5)
    bridge.land(1, topic="behind the others")
    bridge.land(2, route=1)
    for one in await visit.publishes(2):
        assert one.topic == "t1"
        accept(visit, one)
    assert bridge.forwarders[0].poison.full
    assert not bridge.uplink.outgoing.work().waiting, "the watchdog is not to bite: nothing could leave"
    order = []
    while len(order) < 7:
        one = await next_publish(visit)
        order.append(int(one.payload))
        accept(visit, one)
    assert order == list(range(7))
    assert bridge.sums_hold


async def test_a_message_too_large_is_a_dead_letter_that_was_never_sent(remote: Remote, span: Spans) -> None:
    bridge = span()
    visit = await remote.accept(maximum_packet_size=500)
    bridge.land(1)
    bridge.land(1, qos=0, content_type="x" * 600)
    bridge.land(1)
    assert payloads(await visit.publishes(2)) == [0, 2]
    assert buried(bridge) == [(1, "too-large", 0)]


async def test_a_window_of_refusals_is_buried_whole_and_nothing_stalls(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(300)
    visit = await remote.accept()
    for one in await visit.publishes(300):
        refuse(visit, one, Reason.NOT_AUTHORIZED)
    await until(lambda: bridge.outboxes[0].depth == 0)
    assert [number for number, _, _ in buried(bridge)] == list(range(300))
    bridge.land(1)
    accept(visit, await next_publish(visit))
    await until(lambda: bridge.outboxes[0].delivered == 1)
    assert bridge.sums_hold
