"""What an uplink says about a session that the remote has kept: which subscriptions are over, whether anything is to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bridgehead.wire.packets import Pingreq, Pingresp, Publish, Subscribe, Unsuback, Unsubscribe
from bridgehead.wire.reason import Reason
from making.remote import Remote
from making.span import Span, until

Spans = Callable[..., Span]


async def test_filters_that_are_no_longer_wanted_are_unsubscribed_behind_those_that_are(remote: Remote, span: Spans) -> None:
    """The other way round a message between the two would be lost to a filter that takes the place of another."""
    told: list[bool] = []
    bridge = span(pull=True, unwanted=("old/#", "older"))
    bridge.uplink.asking.on_subscribed = lambda: told.append(True)
    visit = await remote.accept(session_present=True)
    await visit.granted()
    over = await visit.next(Unsubscribe)
    assert over.filters == ["old/#", "older"]
    assert not told
    visit.send(Unsuback(over.packet_id, [Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED]))
    await until(lambda: told == [True])


async def test_a_new_session_has_nothing_to_unsubscribe(remote: Remote, span: Spans) -> None:
    span(pull=True, unwanted=("old/#",))
    visit = await remote.accept()
    await visit.next(Subscribe)


async def test_whoever_waits_for_the_subscriptions_is_told(remote: Remote, span: Spans) -> None:
    told: list[bool] = []
    bridge = span(pull=True)
    bridge.uplink.asking.on_subscribed = lambda: told.append(True)
    await (await remote.accept()).granted()
    await until(lambda: told == [True])


async def test_a_round_trip_ends_behind_what_the_remote_had_sent(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    await until(lambda: bridge.uplink.status.subscribed)
    trip = asyncio.ensure_future(bridge.uplink.round_trip())
    await visit.next(Pingreq)
    visit.send(Publish("in/a", b"before", 0), Pingresp())
    await trip
    bridge.consumer.gathering.flush()
    assert bridge.consumer.received == 1


async def test_a_round_trip_without_a_connection_is_an_error(remote: Remote, span: Spans) -> None:
    bridge = span()
    with pytest.raises(ConnectionError):
        await bridge.uplink.round_trip()
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    trip = asyncio.ensure_future(bridge.uplink.round_trip())
    await visit.next(Pingreq)
    visit.cut()
    with pytest.raises(ConnectionError):
        await trip
