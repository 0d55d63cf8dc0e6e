"""Cuts at exact moments: what the remote gets afterwards, and in which order."""

from __future__ import annotations

import fcntl
from array import array
from collections.abc import Callable
from typing import Final

import pytest

from bridgehead.bridge.dialling import UNSENT_BYTES, Credentials
from bridgehead.bridge.outgoing import LAST_ID
from bridgehead.link.link import Link
from bridgehead.wire.packets import Connect, Disconnect, Puback, Pubcomp, Publish, Pubrec, Pubrel
from making.remote import Remote, Visit
from making.span import Span, until

Spans = Callable[..., Span]
SIOCOUTQNSD: Final = 0x894B
"""Asks Linux for the bytes of a socket that it has taken and not sent."""


def told(publishes: list[Publish]) -> list[tuple[int, int, bool]]:
    """Number, packet id, DUP."""
    return [(int(one.payload), one.packet_id, one.dup) for one in publishes]


async def test_a_cut_before_connack_costs_nothing(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(2)
    first = await remote.visit()
    await first.next(Connect)
    first.cut()
    second = await remote.accept()
    assert told(await second.publishes(2)) == [(0, 1, False), (1, 2, False)]


async def test_every_attempt_says_the_same_connect(remote: Remote, span: Spans) -> None:
    given = (("site", "7"), ("site", "8"))
    span(client_id="edge-7", keep_alive=33, session_expiry=99, credentials=Credentials("u", b"p"), user_properties=given)
    first = await remote.visit()
    said = await first.next(Connect)
    first.cut()
    again = await remote.visit()
    assert await again.next(Connect) == said
    assert (said.client_id, said.keep_alive, said.username, said.password) == ("edge-7", 33, "u", b"p")
    assert said.properties == {"session_expiry_interval": 99, "user_property": list(given)}
    assert not said.clean_start


async def test_a_username_goes_alone_too(remote: Remote, span: Spans) -> None:
    span(credentials=Credentials("u"))
    said = await (await remote.visit()).next(Connect)
    assert (said.username, said.password) == ("u", None)


async def test_after_a_cut_between_publish_and_puback_the_same_id_comes_again_with_dup(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(3)
    visit = await remote.accept()
    assert told(await visit.publishes(3)) == [(0, 1, False), (1, 2, False), (2, 3, False)]
    visit.send(Puback(2))
    await until(lambda: bridge.outboxes[0].delivered == 1)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(1)
    again = await remote.accept(session_present=True)
    assert told(await again.publishes(3)) == [(0, 1, True), (2, 3, True), (3, 4, False)]
    again.send(Puback(1), Puback(3), Puback(4))
    await until(lambda: bridge.outboxes[0].delivered == 4)
    assert bridge.outboxes[0].depth == 0
    assert bridge.sums_hold


async def test_after_a_cut_between_pubrec_and_pubrel_only_pubrel_comes_again(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(2, qos=2)
    visit = await remote.accept()
    await visit.publishes(2)
    visit.send(Pubrec(1))
    assert await visit.next(Pubrel) == Pubrel(1)
    visit.cut()
    again = await remote.accept(session_present=True)
    assert await again.next(Pubrel) == Pubrel(1)
    assert told(await again.publishes(1)) == [(1, 2, True)]
    again.send(Pubcomp(1), Pubrec(2))
    assert await again.next(Pubrel) == Pubrel(2)
    again.send(Pubcomp(2))
    await until(lambda: bridge.outboxes[0].delivered == 2)


async def test_if_the_remote_has_lost_the_session_everything_unacknowledged_is_sent_as_new(
    remote: Remote, span: Spans
) -> None:
    bridge = span()
    bridge.land(2, qos=2)
    bridge.land(2)
    visit = await remote.accept()
    await visit.publishes(4)
    visit.send(Pubrec(1))
    await visit.next(Pubrel)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(1)
    again = await remote.accept(session_present=False)
    publishes = await again.publishes(5)
    assert [int(one.payload) for one in publishes] == [0, 1, 2, 3, 4]
    assert not any(one.dup for one in publishes)
    assert bridge.uplink.status.possibly_doubled == 4


async def test_a_session_of_an_earlier_life_has_its_packet_ids_released_first(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(1, qos=2)
    visit = await remote.accept(session_present=True)
    released = [(await visit.next(Pubrel)).packet_id for _ in range(LAST_ID)]
    assert released == list(range(1, LAST_ID + 1))
    assert told(await visit.publishes(1)) == [(0, 1, False)]
    visit.send(Pubcomp(1))
    assert await visit.silent()
    assert bridge.outboxes[0].delivered == 0


async def test_rows_go_on_flowing_after_many_quick_cuts(remote: Remote, span: Spans) -> None:
    """The stall of the seeds: markers left behind, nobody woken, a counter below zero."""
    bridge = span()
    for attempt in range(8):
        bridge.land(5)
        visit = await remote.accept(session_present=attempt > 0)
        await visit.next(Publish)
        visit.cut()
    visit = await remote.accept(session_present=True)
    bridge.land(1)
    seen: set[int] = set()
    while len(seen) < 41:
        packet = await visit.read()
        if isinstance(packet, Publish):
            seen.add(int(packet.payload))
            visit.send(Puback(packet.packet_id))
    await until(lambda: bridge.outboxes[0].delivered == 41)
    assert bridge.outboxes[0].in_flight == 0
    assert bridge.uplink.in_flight == 0


async def test_rows_that_landed_while_tier_2_was_empty_are_sent_after_a_reconnect(remote: Remote, span: Spans) -> None:
    bridge = span(tier2=1)
    visit = await remote.accept()
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    bridge.land(3)
    again = await remote.accept(session_present=True)
    assert [int(one.payload) for one in await again.publishes(3)] == [0, 1, 2]


@pytest.mark.parametrize("qos", [1, 2])
async def test_unacknowledged_rows_come_before_tier_2_and_tier_2_before_the_outbox(
    remote: Remote, span: Spans, qos: int
) -> None:
    bridge = span(tier2=2)
    bridge.land(2, qos=qos)
    visit = await remote.accept(receive_maximum=2)
    await visit.publishes(2)
    bridge.land(6, qos=qos)
    visit.cut()
    await until(lambda: bridge.forwarders[0].tier2 == 2)
    again = await remote.accept(session_present=True)
    assert [int(one.payload) for one in await again.publishes(8)] == list(range(8))


@pytest.mark.parametrize("session_present", [True, False])
async def test_rows_of_every_qos_keep_their_order_among_each_other_over_a_reconnect(
    remote: Remote, span: Spans, session_present: bool
) -> None:
    bridge = span(tier2=4)
    bridge.land(3, qos=2)
    visit = await remote.accept(receive_maximum=3)
    await visit.publishes(3)
    for n in range(9):
        bridge.land(1, qos=n % 3)
    visit.cut()
    await until(lambda: bridge.forwarders[0].tier2 == 4)
    again = await remote.accept(session_present=session_present)
    publishes = await again.publishes(12)
    assert [(int(one.payload), one.qos) for one in publishes] == [(n, 2 if n < 3 else n % 3) for n in range(12)]
    assert bridge.uplink.status.possibly_doubled == (0 if session_present else 3)


async def test_tier_2_is_bounded_and_the_outbox_keeps_the_rest(remote: Remote, span: Spans) -> None:
    bridge = span(tier2=3, addresses=(("127.0.0.1", 1),))
    for _ in range(5):
        bridge.land(2)
    await until(lambda: bridge.forwarders[0].tier2 == 3)
    bridge.land(5)
    await until(lambda: bridge.uplink.status.last_error is not None)
    assert bridge.forwarders[0].tier2 == 3
    assert bridge.outboxes[0].depth == 15


async def _unread(remote: Remote, bridge: Span) -> tuple[Visit, Link]:
    """A remote that does not read, and 400 messages of 50 kB of which no more leave."""
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.pause()
    bridge.land(400, qos=0, content_type="x" * 50_000)
    link = bridge.uplink._link
    assert link is not None
    await until(lambda: not link.writable)
    return visit, link


async def test_qos_0_rows_that_the_kernel_did_not_take_are_sent_after_the_cut(remote: Remote, span: Spans) -> None:
    bridge = span()
    visit, link = await _unread(remote, bridge)
    await until(lambda: bridge.outboxes[0].delivered > 0)
    visit.cut()
    await until(lambda: not bridge.uplink.connected)
    taken = bridge.outboxes[0].delivered
    assert 0 < taken < 400
    assert taken * 50_000 < link.taken  # no row was called delivered whose bytes were still here
    again = await remote.accept(session_present=True)
    got = [int(one.payload) for one in await again.publishes(400 - taken)]
    assert got == list(range(taken, 400))
    await until(lambda: bridge.outboxes[0].delivered == 400)
    assert bridge.sums_hold


async def test_the_kernel_takes_little_for_a_remote_that_does_not_read(remote: Remote, span: Spans) -> None:
    _, link = await _unread(remote, span())
    assert link._transport is not None
    unsent = array("i", [0])
    fcntl.ioctl(link._transport.get_extra_info("socket").fileno(), SIOCOUTQNSD, unsent)
    assert unsent[0] < 4 * UNSENT_BYTES


@pytest.mark.parametrize("session_present", [True, False])
@pytest.mark.parametrize("cuts", [1, 2])
async def test_rows_of_every_qos_that_the_kernel_did_not_take_keep_their_order_over_a_cut(
    remote: Remote, span: Spans, cuts: int, session_present: bool
) -> None:
    bridge = span()
    for cut in range(cuts):
        visit = await remote.accept(session_present=session_present and cut > 0)
        await until(lambda: bridge.uplink.connected)
        visit.pause()
        if not cut:
            for n in range(300):
                bridge.land(1, qos=n % 3, content_type="x" * 60_000)
        link = bridge.uplink._link
        await until(lambda link=link: link is not None and not link.writable)
        visit.cut()
        await until(lambda: not bridge.uplink.connected)
    taken = bridge.outboxes[0].delivered
    again = await remote.accept(session_present=session_present)
    came = [int(one.payload) for one in await again.publishes(300 - taken)]
    assert came == sorted(came)
    assert {n for n in range(300) if n % 3} <= set(came)
    await until(lambda: bridge.outboxes[0].delivered == 100)
    assert bridge.sums_hold


async def test_a_remote_that_ends_the_connection_is_reconnected_to(remote: Remote, span: Spans) -> None:
    bridge = span()
    visit = await remote.accept()
    visit.end()
    await until(lambda: bridge.uplink.status.last_error is not None)
    assert bridge.uplink.status.last_error == "the remote broker closed the connection"
    await remote.accept()
    await until(lambda: bridge.uplink.connected)
    assert bridge.uplink.status.state == "connected"
    assert bridge.uplink.status.last_error == "the remote broker closed the connection", "it stays visible"
    assert bridge.uplink.status.last_error_at is not None
    assert bridge.uplink.status.connects == 2


async def test_a_stop_says_goodbye_and_leaves_the_unacknowledged_where_they_are(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(1)
    visit = await remote.accept()
    await visit.publishes(1)
    await bridge.uplink.stop()
    assert await visit.next(Disconnect) == Disconnect()
    assert await visit.read() is None
    assert bridge.uplink.status.state == "stopped"
    assert bridge.outboxes[0].depth == 1


@pytest.mark.parametrize("before", ["CONNECT", "CONNACK"])
async def test_a_stop_in_the_middle_of_connecting_does_not_wait(remote: Remote, span: Spans, before: str) -> None:
    bridge = span()
    visit: Visit | None = None
    if before == "CONNACK":
        visit = await remote.visit()
        await visit.next(Connect)
    await bridge.uplink.stop()
    assert bridge.uplink.status.state == "stopped"
