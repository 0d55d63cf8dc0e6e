"""Acknowledgements that nobody waits for are worked on while a sync runs, and never lost."""

from __future__ import annotations

import pytest

from bridgehead.wire.packets import Puback, Publish, Pubrec, Pubrel
from making.remote import Remote, Visit
from making.slow import SlowEngine
from making.span import Span, until


async def busy_span(remote: Remote, rows: int, qos: int = 1, **given: object) -> tuple[Span, SlowEngine, Visit, list[Publish]]:
    """A bridge whose remote has got these rows, and an engine that has no time yet."""
    engine = SlowEngine()
    engine.unhurried = []
    bridge = Span(remote.port, engine=engine)
    bridge.uplink.start()
    visit = await remote.accept(**given)
    await until(lambda: bridge.uplink.connected)
    bridge.land(rows, qos=qos)
    return bridge, engine, visit, await visit.publishes(rows)


async def test_they_wait_for_a_sync_and_are_worked_on_together(remote: Remote) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 3)
    assert engine.unhurried == []
    visit.send(Puback(sent[0].packet_id))
    await until(lambda: engine.unhurried != [])
    visit.send(Puback(sent[2].packet_id))
    await until(lambda: len(bridge.uplink.outgoing._late._came) == 2)
    assert (bridge.outboxes[0].depth, len(engine.unhurried)) == (3, 1)
    engine.unhurried.pop()()
    assert bridge.outboxes[0].depth == 1
    visit.send(Puback(sent[1].packet_id))
    await until(lambda: engine.unhurried != [])
    engine.unhurried.pop()()
    assert bridge.outboxes[0].depth == 0
    await bridge.die()


async def test_what_was_acknowledged_before_the_connection_broke_is_not_sent_again(remote: Remote) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 2)
    visit.send(Puback(sent[0].packet_id))
    await until(lambda: engine.unhurried != [])
    visit.cut()
    again = await remote.accept(session_present=True)
    assert [each.payload for each in await again.publishes(1)] == [b"1"]
    again.send(Puback(sent[1].packet_id))
    await until(lambda: len(engine.unhurried) == 2)
    for late in engine.unhurried:
        late()
    assert bridge.outboxes[0].depth == 0, "whoever comes for what was worked on already finds nothing"
    await bridge.die()


async def test_answers_at_qos_2_wait_for_nothing_and_keep_the_order(remote: Remote) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 1)
    visit.send(Puback(sent[0].packet_id))
    await until(lambda: engine.unhurried != [])
    bridge.land(1, qos=2)
    [twice] = await visit.publishes(1)
    visit.send(Pubrec(twice.packet_id))
    assert await visit.next(Pubrel) == Pubrel(twice.packet_id)
    assert bridge.outboxes[0].depth == 1, "those before it were worked on first"
    await bridge.die()


async def test_where_the_window_is_small_nothing_waits(remote: Remote) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 3, receive_maximum=4)
    visit.send(Puback(sent[0].packet_id))
    await until(lambda: bridge.outboxes[0].depth == 2)
    assert engine.unhurried == []
    await bridge.die()


async def test_a_fault_of_ours_ends_the_connection_and_the_next_one_goes_on(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 1)

    def fault(acks: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(bridge.uplink.outgoing._sender, "answered", fault)
        visit.send(Puback(sent[0].packet_id))
        await until(lambda: engine.unhurried != [])
        with pytest.raises(ZeroDivisionError):
            engine.unhurried.pop()()
    again = await remote.accept(session_present=True)
    [repeated] = await again.publishes(1)
    assert (repeated.payload, repeated.dup) == (b"0", True)
    await bridge.die()


async def test_a_bridge_that_is_to_end_waits_for_nobody(remote: Remote) -> None:
    bridge, engine, visit, sent = await busy_span(remote, 1)
    visit.send(Puback(sent[0].packet_id))
    await until(lambda: engine.unhurried != [])
    await bridge.uplink.stop()
    assert bridge.outboxes[0].depth == 0
