"""What the remote sends when there is no room for it: held back without an answer, while everything else goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bridgehead.bridge import consumer as module
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.rocks import RocksEngine
from bridgehead.wire.packets import Disconnect, Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe
from bridgehead.wire.reason import Reason
from making.crashing import Lives
from making.remote import Remote, Visit
from making.span import Span, until


async def connected(remote: Remote, bridge: Span, *, present: bool = False) -> Visit:
    bridge.uplink.start()
    return await accepted(remote, bridge, present=present)


async def accepted(remote: Remote, bridge: Span, *, present: bool) -> Visit:
    visit = await remote.accept(session_present=present)
    if not present:
        await visit.granted()
    await until(lambda: bridge.uplink.connected and bridge.uplink.status.subscribed)
    return visit


def messages(first: int, count: int, qos: int = 1) -> list[Publish]:
    return [Publish("in/a", b"%d" % at, qos, packet_id=at if qos else 0) for at in range(first, first + count)]


def numbers(*found: int) -> list[bytes]:
    return [b"%d" % number for number in found]


async def test_a_full_pull_route_takes_what_fits_and_the_rest_when_there_is_room(remote: Remote) -> None:
    bridge = Span(remote.port, pull=True, pull_limit=2)
    visit = await connected(remote, bridge)
    visit.send(*messages(1, 3), *messages(4, 1, qos=2), *messages(5, 1, qos=0))
    assert [await visit.next(Puback) for _ in range(2)] == [Puback(1), Puback(2)]
    bridge.land(1, qos=1)
    sent = await visit.next(Publish)
    visit.send(Puback(sent.packet_id))
    await until(lambda: bridge.outboxes[0].ledger.delivered == 1)  # what goes out does not wait for what comes in
    assert bridge.journalled() == numbers(1, 2)
    bridge.consume()
    assert await visit.next(Puback) == Puback(3)
    assert await visit.next(Pubrec) == Pubrec(4)
    assert bridge.journalled() == numbers(1, 2, 3, 4)
    assert (bridge.door.received, bridge.door.dropped) == (5, {"queue-full": 1})
    await bridge.uplink.stop()


async def test_what_is_held_when_the_connection_ends_comes_again(remote: Remote) -> None:
    bridge = Span(remote.port, pull=True, pull_limit=1)
    visit = await connected(remote, bridge)
    visit.send(*messages(1, 2, qos=2), *messages(9, 1, qos=0))
    assert await visit.next(Pubrec) == Pubrec(1)
    visit.cut()
    visit = await accepted(remote, bridge, present=True)
    bridge.consume()
    visit.send(Pubrel(1), Publish("in/a", b"2", 2, dup=True, packet_id=2))
    assert await visit.next(Pubcomp) == Pubcomp(1)
    assert await visit.next(Pubrec) == Pubrec(2)
    assert bridge.journalled() == numbers(1, 2)
    assert bridge.consumer.held_lost == 1
    await bridge.uplink.stop()


async def test_a_held_id_is_not_on_the_disk_before_its_message_is(remote: Remote, tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    engine = lives.start()
    bridge, _ = await _one_in_and_one_held(remote, engine)
    engine = lives.crash()
    await bridge.uplink.stop()
    await _comes_again(remote, Span(remote.port, pull=True, engine=engine), 1, 2)
    lives.close()


async def _one_in_and_one_held(remote: Remote, engine: RocksEngine) -> tuple[Span, Visit]:
    bridge = Span(remote.port, pull=True, pull_limit=1, engine=engine)
    visit = await connected(remote, bridge)
    visit.send(*messages(1, 2, qos=2))
    assert await visit.next(Pubrec) == Pubrec(1)
    return bridge, visit


async def _comes_again(remote: Remote, bridge: Span, *ids: int) -> None:
    """In the next life the remote sends all that it has no answer to: it is answered, and each is there once."""
    bridge.uplink.start()
    visit = await remote.accept(session_present=True)
    await until(lambda: bridge.uplink.connected)
    visit.send(*(Publish("in/a", b"%d" % at, 2, dup=True, packet_id=at) for at in ids))
    packets = [await visit.read()]
    while isinstance(packets[-1], Pubrel | Subscribe):  # ids that an earlier life may have sent are released first
        packets.append(await visit.read())
    packets += [await visit.next(Pubrec) for _ in ids[1:]]
    assert packets[-len(ids) :] == [Pubrec(at) for at in ids]
    assert bridge.journalled() == numbers(*ids)
    await bridge.uplink.stop()


async def test_what_is_offered_again_puts_no_id_on_the_disk_of_a_message_that_is_still_gathered(
    remote: Remote, tmp_path: Path
) -> None:
    lives = Lives(tmp_path)
    engine = lives.start()
    bridge, visit = await _one_in_and_one_held(remote, engine)
    engine.between_syncs = lambda callback: None  # type: ignore[method-assign]  # a sync runs, and turns wait for its end
    visit.send(*messages(3, 1, qos=2))
    await until(lambda: bridge.consumer.gathering.intake.rows_used == 1)
    offered = asyncio.Event()
    bridge.consumer.room_again()
    asyncio.get_running_loop().call_soon(offered.set)
    await offered.wait()
    engine = lives.crash()
    await bridge.uplink.stop()
    await _comes_again(remote, Span(remote.port, pull=True, engine=engine), 1, 2, 3)
    lives.close()


async def test_below_the_free_space_only_qos_0_comes_in(remote: Remote) -> None:
    free = [0]
    space = FreeSpace(lambda: free[0], 160)
    bridge = Span(remote.port, pull=True, space=space)
    space.on_room = bridge.consumer.room_again
    visit = await connected(remote, bridge)
    visit.send(*messages(1, 1, qos=0), *messages(2, 1))
    await until(lambda: bridge.journalled() == numbers(1))
    free[0] = 1000
    space.look()
    assert await visit.next(Puback) == Puback(2)
    assert bridge.journalled() == numbers(1, 2)
    await bridge.uplink.stop()


async def test_what_a_remote_sends_beyond_what_is_held_is_passed_by_and_comes_again_when_there_is_room(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this connection come the acknowledgements for what is pushed: to end it before there is room is never to have any."""
    monkeypatch.setattr(module, "HELD_BYTES", 1000)
    bridge = Span(remote.port, pull=True, pull_limit=1)
    visit = await connected(remote, bridge)
    visit.send(Publish("in/a", b"1", 2, packet_id=1))
    assert await visit.next(Pubrec) == Pubrec(1)
    large = [Publish("in/a", (b"%d" % at).ljust(600), 2 - at % 2, packet_id=at) for at in range(2, 6)]
    visit.send(*large[:2])
    await until(lambda: bridge.consumer._passing_by)
    visit.send(*large[2:], Publish("in/a", b"6"), Pubrel(1))
    assert await visit.next(Pubcomp) == Pubcomp(1), "what was taken before goes on"
    assert (bridge.uplink.connected, bridge.consumer.held_lost) == (True, 1)
    bridge.consume()
    assert await visit.next(Pubrec) == Pubrec(2)
    bridge.consume()
    assert await visit.next(Puback) == Puback(3)
    assert (await visit.next(Disconnect)).reason == Reason.QUOTA_EXCEEDED
    visit = await accepted(remote, bridge, present=True)
    bridge.consume()
    visit.send(Pubrel(2), replace(large[2], dup=True))
    assert await visit.next(Pubcomp) == Pubcomp(2)
    assert await visit.next(Pubrec) == Pubrec(4)
    bridge.consume()
    visit.send(replace(large[3], dup=True))
    assert await visit.next(Puback) == Puback(5)
    await bridge.uplink.stop()
