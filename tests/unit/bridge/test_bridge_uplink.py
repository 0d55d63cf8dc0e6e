"""The uplink's conversation with its remote: refusals, faults, subscriptions, and what comes the other way."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bridgehead.bridge.backoff import Backoff
from bridgehead.bridge.dialling import Way, WebSocket
from bridgehead.link.trust import Contexts, Trust
from bridgehead.link.tunnel import Proxy
from bridgehead.wire.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
)
from bridgehead.wire.reason import Reason
from making.remote import Remote
from making.span import Span, until

Spans = Callable[..., Span]


async def test_a_refused_connect_is_shown_and_tried_again(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(1)
    visit = await remote.visit()
    await visit.next(Connect)
    visit.send(Connack(False, Reason.BAD_USER_NAME_OR_PASSWORD, {"reason_string": "who are you"}))
    await until(lambda: bridge.uplink.status.last_error is not None)
    assert bridge.uplink.status.last_error == (
        "the remote broker refused the connection: bad user name or password (0x86): who are you"
    )
    assert bridge.uplink._backoff.attempts == 1
    again = await remote.accept()
    assert (await again.publishes(1))[0].payload == b"0"
    assert bridge.uplink._backoff.attempts == 0


async def test_delays_grow_while_the_remote_refuses(remote: Remote, span: Spans) -> None:
    bridge = span()
    for attempt in range(5):
        visit = await remote.visit()
        await visit.next(Connect)
        visit.send(Connack(False, Reason.NOT_AUTHORIZED))
        await until(lambda attempt=attempt: bridge.uplink._backoff.attempts == attempt + 1)  # type: ignore[misc]


async def test_pauses_begin_with_the_first_also_when_no_connect_has_ever_succeeded_and_again_after_a_success(
    remote: Remote, span: Spans
) -> None:
    pauses: list[float] = []

    class Told(Backoff):
        def next(self) -> float:
            pauses.append(super().next())
            return 0.0

    class NoChance(random.Random):
        def random(self) -> float:
            return 0.0

    bridge = span()
    bridge.uplink._backoff = Told(chance=NoChance())
    for _ in range(3):
        refused = await remote.visit()
        await refused.next(Connect)
        refused.send(Connack(False, Reason.SERVER_UNAVAILABLE))
    (await remote.accept()).cut()
    await remote.accept()
    await until(lambda: bridge.uplink.connected)
    assert pauses == [1, 2, 4, 1]


async def test_a_goodbye_of_the_remote_is_shown_with_its_reason(remote: Remote, span: Spans) -> None:
    bridge = span()
    visit = await remote.accept()
    visit.send(Disconnect(Reason.SESSION_TAKEN_OVER))
    await until(lambda: bridge.uplink.status.last_error is not None)
    assert bridge.uplink.status.last_error == "the remote broker said DISCONNECT: session taken over (0x8e)"
    await remote.accept()
    await until(lambda: bridge.uplink.connected)


@pytest.mark.parametrize(
    "fault",
    [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), UnicodeError("label empty or too long")],
    ids=["unknown", "impossible"],
)
async def test_a_host_that_cannot_be_found_is_tried_again(
    remote: Remote, span: Spans, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    loop = asyncio.get_running_loop()
    real = loop.create_connection

    async def nowhere(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(loop, "create_connection", nowhere)
    bridge = span()
    bridge.land(1)
    await until(lambda: bridge.uplink._backoff.attempts > 1)
    assert str(bridge.uplink.status.last_error).startswith("cannot reach 127.0.0.1:")
    monkeypatch.setattr(loop, "create_connection", real)
    await (await remote.accept()).publishes(1)


async def test_a_stop_does_not_wait_for_a_host_that_does_not_answer(
    remote: Remote, span: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    async def black_hole(*_: Any, **__: Any) -> None:
        asked.set()
        await loop.create_future()

    monkeypatch.setattr(loop, "create_connection", black_hole)
    bridge = span()
    await asked.wait()
    before = loop.time()
    await bridge.uplink.stop()
    assert loop.time() - before < 2


@pytest.mark.parametrize(
    "way",
    [
        Way(tls=Contexts(Trust())),
        Way(websocket=WebSocket("/mqtt", "mqtt")),
        Way(proxy=Proxy("127.0.0.1", 0)),
    ],
    ids=["TLS", "WebSocket", "proxy"],
)
async def test_a_stop_has_nothing_to_wait_for_before_connect_has_left(remote: Remote, span: Spans, way: Way) -> None:
    if way.proxy is not None:
        way = replace(way, proxy=replace(way.proxy, port=remote.port))
    bridge = span(way=way)
    visit = await remote.visit()
    assert await visit.hear()
    visit.pause()  # it does not notice that we end, either
    await asyncio.wait_for(bridge.uplink.stop(patience=60), 1)
    visit.resume()
    assert await visit.hear() == b""
    assert bridge.uplink.status.state == "stopped"


async def test_a_stop_hears_the_answer_to_connect_and_takes_leave_in_order(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(1)
    visit = await remote.visit()
    await visit.next(Connect)
    stopping = asyncio.ensure_future(bridge.uplink.stop(patience=60))
    assert await visit.silent()
    assert not stopping.done()
    visit.send(Connack())
    assert await visit.next(Disconnect) == Disconnect(), "nothing new is begun"
    assert await visit.read() is None
    await stopping
    assert bridge.outboxes[0].depth == 1


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "silent"])
async def test_a_stop_waits_for_no_more_than_an_answer_to_connect_and_not_for_ever(
    remote: Remote, span: Spans, refused: bool
) -> None:
    bridge = span()
    visit = await remote.visit()
    await visit.next(Connect)
    stopping = asyncio.ensure_future(bridge.uplink.stop(patience=60 if refused else 0.05))
    if refused:
        visit.send(Connack(reason=Reason.NOT_AUTHORIZED))
    await asyncio.wait_for(stopping, 20)
    assert await visit.read() is None
    assert bridge.uplink.status.state == "stopped"


async def test_a_stop_is_heard_at_every_step_of_connecting(remote: Remote) -> None:
    for steps in range(60):
        bridge = Span(remote.port)
        bridge.uplink.start()
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.wait_for(bridge.uplink.stop(), 1)
        assert bridge.uplink.status.state == "stopped", steps


@pytest.mark.parametrize("packet", [Subscribe(1, []), Unsuback(1), Connack()], ids=["SUBSCRIBE", "UNSUBACK", "CONNACK"])
async def test_a_remote_that_breaks_the_protocol_is_told_and_left(remote: Remote, span: Spans, packet: Any) -> None:
    bridge = span()
    visit = await remote.accept()
    if isinstance(packet, Subscribe):
        visit._writer.write(b"\x82\x06\x00\x01\x00\x00\x01a\x00"[:2] + b"\x00\x01\x00\x00\x01a")
    else:
        visit.send(packet)
    assert (await visit.next(Disconnect)).reason >= 0x80
    assert await visit.read() is None
    await until(lambda: bridge.uplink.status.last_error is not None)


async def test_messages_before_connack_are_never_taken(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    visit.cut()
    visit = await remote.visit()
    await visit.next(Connect)
    visit.send(Publish("in/a", b"early", 2, packet_id=5), Connack(session_present=True))
    assert await visit.read() is None
    visit = await remote.accept(session_present=True)
    visit.send(Publish("in/a", b"late", 2, packet_id=5))
    assert await visit.next(Pubrec) == Pubrec(5)
    assert bridge.journalled() == [b"late"]


async def test_what_the_remote_sends_is_journalled_before_it_is_acknowledged(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    assert [wish.filter for wish in (await visit.granted()).subscriptions] == ["in/#"]
    visit.send(Publish("in/a", b"0"), Publish("in/b", b"1", 1, packet_id=1), Publish("in/c", b"2", 2, packet_id=2))
    assert await visit.next(Puback) == Puback(1)
    assert await visit.next(Pubrec) == Pubrec(2)
    assert bridge.journalled() == [b"0", b"1", b"2"]
    visit.send(Pubrel(2))
    assert await visit.next(Pubcomp) == Pubcomp(2)


async def test_what_has_come_is_acknowledged_before_a_stop_also_while_the_remote_goes_on_sending(
    remote: Remote, span: Spans
) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    visit.pause()
    visit.send(*(Publish("in/a", bytes(1000), 1, packet_id=number) for number in range(1, 2001)))
    await until(lambda: len(bridge.journalled()) > 0)
    stopping = asyncio.ensure_future(bridge.uplink.stop())
    visit.send(*(Publish("in/a", bytes(1000), 1, packet_id=number) for number in range(2001, 4001)))
    visit.resume()
    acknowledged = 0
    while isinstance(packet := await visit.read(), Puback):
        acknowledged += 1
    assert packet == Disconnect()
    assert acknowledged == len(bridge.journalled()) < 4000
    await stopping


async def test_a_qos_2_message_that_comes_again_is_journalled_once(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/c", b"2", 2, packet_id=2))
    await visit.next(Pubrec)
    visit.cut()
    again = await remote.accept(session_present=True)
    again.send(Publish("in/c", b"2", 2, dup=True, packet_id=2))
    assert await again.next(Pubrec) == Pubrec(2)
    again.send(Pubrel(2), Publish("in/c", b"3", 2, packet_id=2))
    await again.next(Pubcomp)
    assert await again.next(Pubrec) == Pubrec(2)
    assert bridge.journalled() == [b"2", b"3"]


async def test_a_lost_session_forgets_which_qos_2_messages_had_come(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/c", b"2", 2, packet_id=2))
    await visit.next(Pubrec)
    visit.cut()
    again = await remote.accept()
    await again.granted()
    again.send(Publish("in/c", b"another", 2, packet_id=2))
    await again.next(Pubrec)
    assert bridge.journalled() == [b"2", b"another"]


async def test_a_resumed_session_is_not_subscribed_again(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    await until(lambda: bridge.uplink.status.subscribed)
    visit.cut()
    again = await remote.accept(session_present=True)
    await until(lambda: bridge.uplink.connected)
    assert await again.silent()


async def test_a_subscription_that_was_never_answered_is_made_again(remote: Remote, span: Spans) -> None:
    span(pull=True)
    visit = await remote.accept()
    await visit.next(Subscribe)
    visit.cut()
    again = await remote.accept(session_present=True)
    await again.next(Subscribe)


async def test_a_refused_subscription_is_shown(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    wish = await visit.next(Subscribe)
    visit.send(Suback(wish.packet_id, [Reason.NOT_AUTHORIZED]))
    await until(lambda: bool(bridge.uplink.status.subscribe_refused))
    assert bridge.uplink.status.subscribe_refused == {"in/#": "not authorized (0x87)"}
    assert bridge.uplink.connected


async def test_a_refused_subscription_is_asked_for_again_until_it_is_granted(remote: Remote, span: Spans) -> None:
    wishes = (Subscription("in/#", 2), Subscription("also/#", 1))
    bridge = span(subscriptions=wishes, keep_alive=1)
    visit = await remote.accept()
    wish = await visit.next(Subscribe)
    visit.send(Suback(wish.packet_id, [Reason.QUOTA_EXCEEDED, Reason.GRANTED_QOS_1]))
    await until(lambda: bridge.uplink.status.subscribed)
    packet = await visit.read()
    while not isinstance(packet, Subscribe):
        visit.send(Pingresp())
        packet = await visit.read()
    assert [each.filter for each in packet.subscriptions] == ["in/#"]
    assert bridge.uplink.status.subscribe_refused
    visit.send(Suback(packet.packet_id, [Reason.GRANTED_QOS_2]))
    await until(lambda: not bridge.uplink.status.subscribe_refused)


async def test_a_refused_subscription_is_asked_for_again_on_the_next_connection(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    wish = await visit.next(Subscribe)
    visit.send(Suback(wish.packet_id, [Reason.NOT_AUTHORIZED]))
    await until(lambda: bool(bridge.uplink.status.subscribe_refused))
    visit.cut()
    again = await remote.accept(session_present=True)
    await again.granted()
    await until(lambda: not bridge.uplink.status.subscribe_refused)


async def test_over_3_1_1_stored_messages_of_the_remote_are_told_by_their_flag_and_left_out(
    remote: Remote, span: Spans
) -> None:
    bridge = span(pull=True, version=4)
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/a", b"stored", 1, retain=True, packet_id=1), Publish("in/a", b"new", 1, packet_id=2))
    assert await visit.next(Puback) == Puback(1)
    assert await visit.next(Puback) == Puback(2)
    assert bridge.journalled() == [b"new"]
    assert bridge.consumer.retained_skipped == 1


async def test_what_no_route_wants_is_counted_and_acknowledged(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("elsewhere", b"x", 1, packet_id=1))
    assert await visit.next(Puback) == Puback(1)
    assert bridge.consumer.unmatched == 1
    assert bridge.journalled() == []


async def test_a_full_journal_stops_the_reading_and_room_starts_it_again(remote: Remote, span: Spans) -> None:
    bridge = span(pull=True)
    bridge.journal.max_bytes = 1
    visit = await remote.accept()
    await visit.granted()
    visit.send(Publish("in/a", b"0", 1, packet_id=1))
    assert await visit.next(Puback) == Puback(1)
    visit.send(Publish("in/a", b"1", 1, packet_id=2))
    assert await visit.silent()
    assert bridge.journalled() == [b"0"]
    bridge.uplink.room_again()
    assert await visit.silent(), "there is no room yet"
    bridge.journal.max_bytes = 1 << 30
    bridge.uplink.room_again()
    assert await visit.next(Puback) == Puback(2)
    assert bridge.journalled() == [b"0", b"1"]
