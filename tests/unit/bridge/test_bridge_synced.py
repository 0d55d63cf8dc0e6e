"""What the remote sends is acknowledged when it is synced, on the connection it came on."""

from __future__ import annotations

from bridgehead.wire.packets import Puback, Publish
from making.remote import Remote
from making.slow import SlowEngine
from making.span import Span, until


async def slow_span(remote: Remote) -> tuple[Span, SlowEngine]:
    engine = SlowEngine()
    bridge = Span(remote.port, engine=engine)
    bridge.uplink.start()
    return bridge, engine


async def test_a_pulled_message_is_acknowledged_after_its_sync_and_not_before(remote: Remote) -> None:
    bridge, engine = await slow_span(remote)
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.send(Publish("in/a", b"x", 1, packet_id=7))
    await until(lambda: bridge.log.end == 1)
    assert bridge.log.visible == 0
    engine.sync()
    assert bridge.journalled() == [b"x"]
    assert await visit.next(Puback) == Puback(7)
    await bridge.die()


async def test_an_acknowledgement_that_outlived_its_connection_is_not_sent_on_the_next(remote: Remote) -> None:
    """There the id may belong to another message, which the remote would take for delivered."""
    bridge, engine = await slow_span(remote)
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.send(Publish("in/a", b"old", 1, packet_id=7))
    await until(lambda: bridge.log.end == 1)
    visit.cut()
    again = await remote.accept(session_present=True)
    await until(lambda: bridge.uplink.connected)
    engine.sync()
    again.send(Publish("in/a", b"new", 1, packet_id=8))
    await until(lambda: bridge.log.end == 2)
    engine.sync()
    assert await again.next(Puback) == Puback(8)
    assert bridge.journalled() == [b"old", b"new"]
    await bridge.die()
