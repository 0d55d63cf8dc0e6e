"""QoS 2 from the remote through a crash of a file-native node: what was kept is known again, what was not is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridgehead.storage.rocks import RocksEngine
from bridgehead.wire.packets import Pubcomp, Publish, Pubrec, Pubrel, Subscribe
from bridgehead.wire.reason import Reason
from making.crashing import Lives
from making.remote import Remote, Visit
from making.span import Span, until


@pytest.fixture
async def lives(tmp_path: Path) -> AsyncIterator[Lives]:
    lives = Lives(tmp_path)
    yield lives
    lives.close()


async def connected(remote: Remote, engine: RocksEngine, *, present: bool) -> tuple[Span, Visit]:
    bridge = Span(remote.port, engine=engine, pull=True)
    bridge.uplink.start()
    visit = await remote.accept(session_present=present)
    packet = await visit.read()
    while isinstance(packet, Pubrel):  # ids that an earlier life had sent are released first
        packet = await visit.read()
    assert isinstance(packet, Subscribe)
    await until(lambda: bridge.uplink.connected)
    return bridge, visit


async def test_a_message_that_comes_again_after_a_crash_is_answered_and_not_taken_twice(remote: Remote, lives: Lives) -> None:
    bridge, visit = await connected(remote, lives.start(), present=False)
    visit.send(Publish("in/a", b"1", 2, packet_id=7), Publish("in/a", b"2", 2, packet_id=50_000))
    assert [(await visit.next(Pubrec)).packet_id for _ in range(2)] == [7, 50_000]
    engine = lives.crash()
    await bridge.uplink.stop()
    bridge, visit = await connected(remote, engine, present=True)
    visit.send(Publish("in/a", b"1", 2, packet_id=7, dup=True), Pubrel(50_000), Publish("in/a", b"3", 2, packet_id=8))
    assert await visit.next(Pubrec) == Pubrec(7)
    assert await visit.next(Pubcomp) == Pubcomp(50_000)
    assert await visit.next(Pubrec) == Pubrec(8)
    assert bridge.journalled() == [b"1", b"2", b"3"]
    await bridge.uplink.stop()


async def test_an_id_whose_release_was_answered_is_free_after_a_crash(remote: Remote, lives: Lives) -> None:
    bridge, visit = await connected(remote, lives.start(), present=False)
    visit.send(Publish("in/a", b"1", 2, packet_id=7))
    await visit.next(Pubrec)
    visit.send(Pubrel(7))
    assert await visit.next(Pubcomp) == Pubcomp(7)
    engine = lives.crash()
    await bridge.uplink.stop()
    bridge, visit = await connected(remote, engine, present=True)
    visit.send(Publish("in/a", b"2", 2, packet_id=7))
    assert await visit.next(Pubrec) == Pubrec(7)
    assert bridge.journalled() == [b"1", b"2"]
    await bridge.uplink.stop()


async def test_a_release_that_comes_again_after_a_crash_is_answered_again(remote: Remote, lives: Lives) -> None:
    bridge, visit = await connected(remote, lives.start(), present=False)
    visit.send(Publish("in/a", b"1", 2, packet_id=7))
    await visit.next(Pubrec)
    visit.send(Pubrel(7))
    await visit.next(Pubcomp)
    engine = lives.crash()
    await bridge.uplink.stop()
    bridge, visit = await connected(remote, engine, present=True)
    visit.send(Pubrel(7))
    assert await visit.next(Pubcomp) == Pubcomp(7, Reason.PACKET_IDENTIFIER_NOT_FOUND)
    await bridge.uplink.stop()


async def test_ids_of_a_session_that_the_remote_has_lost_mean_nothing(remote: Remote, lives: Lives) -> None:
    bridge, visit = await connected(remote, lives.start(), present=False)
    visit.send(Publish("in/a", b"1", 2, packet_id=7))
    await visit.next(Pubrec)
    engine = lives.crash()
    await bridge.uplink.stop()
    bridge, visit = await connected(remote, engine, present=False)
    visit.send(Publish("in/a", b"2", 2, packet_id=7))
    assert await visit.next(Pubrec) == Pubrec(7)
    assert bridge.journalled() == [b"1", b"2"]
    visit.send(Pubrel(7))
    await visit.next(Pubcomp)
    assert list(engine.states(("inbound",))) == [], "nothing of the lost session is left on the disk"
    await bridge.uplink.stop()


async def test_messages_without_an_id_of_qos_2_write_no_ids(remote: Remote, lives: Lives) -> None:
    engine = lives.start()
    bridge, visit = await connected(remote, engine, present=False)
    visit.send(Publish("in/a", b"0"), Publish("in/a", b"1", 1, packet_id=7))
    await visit.read()
    assert list(engine.states(("inbound",))) == []
    await bridge.uplink.stop()
