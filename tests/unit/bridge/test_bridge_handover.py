"""An uplink that takes the place of another one in a running node, whatever the engine: as after a reconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.outgoing import forget_ids
from bridgehead.bridge.subscriptions import Asked
from bridgehead.bridge.uplink import Uplink
from bridgehead.storage.engine import Engine
from bridgehead.storage.memory import MemoryEngine
from bridgehead.wire.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from making.power import PowerEngine
from making.remote import Remote
from making.span import Span, until


@pytest.fixture(params=[MemoryEngine, PowerEngine])
async def bridge(request: pytest.FixtureRequest, remote: Remote) -> AsyncIterator[Span]:
    engine: Engine = request.param()
    span = Span(remote.port, engine=engine)
    span.uplink.start()
    yield span
    await span.uplink.stop()


async def end(bridge: Span) -> None:
    await bridge.uplink.stop()
    bridge.uplink.outgoing.retire()


def successor(bridge: Span) -> Uplink:
    """What is left of the old one is taken up by a new one."""
    forwarders = [Forwarder(number, outbox, 10_000) for number, outbox in enumerate(bridge.outboxes)]
    uplink = Uplink(bridge.uplink.rule, forwarders, bridge.consumer, bridge.engine)
    uplink.follow(bridge.uplink)
    bridge.uplink = uplink
    uplink.start()
    return uplink


async def test_what_is_half_way_through_qos_2_goes_on_where_it_was(bridge: Span, remote: Remote) -> None:
    visit = await remote.accept()
    bridge.land(2, qos=2)
    first, second = await visit.publishes(2)
    visit.send(Pubrec(first.packet_id))
    assert (await visit.next(Pubrel)).packet_id == first.packet_id
    await end(bridge)
    successor(bridge)
    visit = await remote.accept(session_present=True)
    assert (await visit.next(Pubrel)).packet_id == first.packet_id
    again = await visit.next(Publish)
    assert (again.payload, again.packet_id, again.dup) == (second.payload, second.packet_id, True)
    visit.send(Pubcomp(first.packet_id), Pubrec(second.packet_id))
    assert (await visit.next(Pubrel)).packet_id == second.packet_id
    visit.send(Pubcomp(second.packet_id))
    await until(lambda: bridge.outboxes[0].delivered == 2)
    assert bridge.uplink.status.connects == 2


async def test_rows_of_qos_1_without_an_answer_are_sent_again_in_order_before_newer_ones(bridge: Span, remote: Remote) -> None:
    visit = await remote.accept()
    bridge.land(3, qos=1)
    await visit.publishes(3)
    await end(bridge)
    bridge.land(1, qos=1)
    successor(bridge)
    visit = await remote.accept(session_present=True)
    assert [int(one.payload) for one in await visit.publishes(4)] == [0, 1, 2, 3]


async def test_a_retired_side_lets_everything_wait_and_wakes_for_nothing(bridge: Span, remote: Remote) -> None:
    visit = await remote.accept()
    bridge.land(3, qos=1)
    await visit.publishes(3)
    await end(bridge)
    (outbox,) = bridge.outboxes
    bridge.land(2, qos=0)
    await asyncio.sleep(0)
    assert (outbox.depth, outbox.in_flight, bridge.forwarders[0].tier2) == (5, 0, 0)


async def test_a_stop_with_patience_waits_for_what_is_in_flight_and_sends_nothing_new(bridge: Span, remote: Remote) -> None:
    visit = await remote.accept()
    bridge.land(2, qos=1)
    publishes = await visit.publishes(2)
    stopping = asyncio.ensure_future(bridge.uplink.stop(patience=20.0))
    await asyncio.sleep(0)
    bridge.land(1, qos=1)
    visit.send(*(Puback(one.packet_id) for one in publishes))
    await stopping
    assert (bridge.outboxes[0].delivered, bridge.outboxes[0].depth) == (2, 1)


async def test_after_a_purge_every_id_of_a_kept_session_is_settled_first(bridge: Span, remote: Remote) -> None:
    visit = await remote.accept()
    bridge.land(1, qos=2)
    await visit.publishes(1)
    await end(bridge)
    forget_ids(bridge.engine, "b")
    successor(bridge)
    visit = await remote.accept(session_present=True)
    assert (await visit.next(Pubrel)).packet_id == 1


@pytest.mark.parametrize("make", [MemoryEngine, PowerEngine])
def test_filters_that_were_asked_for_are_known_until_the_remote_has_answered_without_them(make: type[Engine]) -> None:
    engine, session = make(), ["edge", [["host", 1]]]
    asked = Asked(engine, "b", session, ["one", "two"])
    assert asked.unwanted == ()
    asked.ask()
    later = Asked(engine, "b", session, ["two", "three"])
    assert later.unwanted == ("one",)
    later.ask()
    assert Asked(engine, "b", session, []).unwanted == ("one", "three", "two")
    later.answered()
    assert Asked(engine, "b", session, []).unwanted == ("three", "two")
    assert Asked(engine, "b", ["other", []], []).unwanted == ()
