"""Several addresses of a remote: who is tried next, and what a session there is worth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bridge.hosts import Found, Hosts
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.rocks import RocksEngine
from bridgehead.wire.packets import Connack, Connect, Puback, Pubcomp, Publish, Pubrec, Pubrel
from bridgehead.wire.reason import Reason
from making.remote import Remote
from making.span import Span, until

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def test_the_next_address_is_tried_at_once_and_a_pause_comes_when_all_have_failed() -> None:
    hosts = Hosts((A, B, C), MemoryEngine(), "b")
    tried, pauses = [], []
    for _ in range(6):
        tried.append(hosts.address)
        pauses.append(hosts.ended(stood=False))
    assert tried == [A, B, C, A, B, C]
    assert pauses == [False, False, True] * 2


def test_the_one_that_worked_is_tried_first_again_and_then_the_ones_behind_it() -> None:
    hosts = Hosts((A, B, C), MemoryEngine(), "b")
    hosts.ended(stood=False)
    hosts.connected(session_present=False)
    hosts.settled()
    assert hosts.ended(stood=True)
    tried = []
    for _ in range(3):
        tried.append(hosts.address)
        hosts.ended(stood=False)
    assert tried == [B, C, A]


def test_one_address_needs_no_memory() -> None:
    hosts = Hosts((A,), MemoryEngine(), "b")
    assert hosts.connected(session_present=True) is Found.OURS
    assert hosts.connected(session_present=False) is Found.NONE
    assert hosts.ended(stood=False)


@pytest.fixture
def engine(tmp_path: Path) -> RocksEngine:
    return RocksEngine(tmp_path, sync=False)


def visit(hosts: Hosts, *, present: bool, settles: bool = True) -> Found:
    found = hosts.connected(session_present=present)
    if found is not Found.OURS and settles:
        hosts.settled()
    return found


async def test_a_host_we_never_were_at_that_has_our_session_shares_it(engine: RocksEngine) -> None:
    hosts = Hosts((A, B), engine, "b")
    assert visit(hosts, present=False) is Found.NONE
    hosts.ended(stood=False)
    assert hosts.address == B
    assert visit(hosts, present=True) is Found.OURS
    hosts.ended(stood=False)
    assert visit(hosts, present=True) is Found.OURS
    engine.close()


async def test_a_session_that_was_left_behind_is_an_old_one(engine: RocksEngine) -> None:
    hosts = Hosts((A, B), engine, "b")
    visit(hosts, present=False)
    hosts.ended(stood=False)
    assert visit(hosts, present=False) is Found.NONE  # so B has its own
    hosts.ended(stood=False)
    assert visit(hosts, present=True) is Found.OLD
    assert visit(hosts, present=True) is Found.OURS
    hosts.ended(stood=False)
    assert visit(hosts, present=True) is Found.OLD
    engine.close()


async def test_a_restart_goes_on_with_the_host_and_the_session_it_had(engine: RocksEngine) -> None:
    hosts = Hosts((A, B), engine, "b")
    visit(hosts, present=False)
    hosts.ended(stood=False)
    visit(hosts, present=False)
    again = Hosts((A, B), engine, "b")
    assert again.address == B
    assert visit(again, present=True) is Found.OURS
    again.ended(stood=False)
    assert visit(again, present=True) is Found.OLD
    engine.close()


async def test_a_death_between_two_sessions_trusts_neither(engine: RocksEngine) -> None:
    hosts = Hosts((A, B), engine, "b")
    visit(hosts, present=False)
    hosts.ended(stood=False)
    visit(hosts, present=False, settles=False)  # killed before the ids of A's session were forgotten
    again = Hosts((A, B), engine, "b")
    assert visit(again, present=True) is Found.OLD
    engine.close()


def test_without_a_disk_a_session_of_an_earlier_life_is_an_old_one() -> None:
    assert visit(Hosts((A, B), MemoryEngine(), "b"), present=True) is Found.OLD


# -- an uplink between two remotes --------------------------------------------------------------------------------------


@pytest.fixture
async def other() -> AsyncIterator[Remote]:
    remote = await Remote().start()
    yield remote
    await remote.stop()


@pytest.fixture
async def both(remote: Remote, other: Remote, span: Any) -> Span:
    made: Span = span(addresses=(("127.0.0.1", remote.port), ("127.0.0.1", other.port)))
    return made


async def refuse(remote: Remote) -> None:
    visit = await remote.visit()
    await visit.next(Connect)
    visit.send(Connack(False, Reason.SERVER_UNAVAILABLE))


async def test_what_was_unacknowledged_is_sent_again_at_another_host_and_counted(
    remote: Remote, other: Remote, both: Span
) -> None:
    here = await remote.accept()
    both.land(2, qos=2)
    await here.publishes(2)
    here.cut()
    await refuse(remote)  # the one that worked is asked first
    there = await other.accept()
    again = await there.publishes(2)
    assert [(each.payload, each.dup) for each in again] == [(b"0", False), (b"1", False)]
    assert both.uplink.status.possibly_doubled == 2
    assert both.uplink.hosts.address == ("127.0.0.1", other.port)


async def test_back_at_a_host_with_an_old_session_its_ids_are_settled_before_anything_is_sent(
    remote: Remote, other: Remote, both: Span
) -> None:
    here = await remote.accept()
    both.land(1, qos=2)
    [first] = await here.publishes(1)
    here.send(Pubrec(first.packet_id))
    await here.next(Pubrel)
    here.cut()  # the remote has the message, and holds its id until PUBREL comes again
    await refuse(remote)
    there = await other.accept()
    [again] = await there.publishes(1)
    there.send(Pubrec(again.packet_id))
    await there.next(Pubrel)
    there.send(Pubcomp(again.packet_id))
    await until(lambda: both.outboxes[0].depth == 0)
    there.cut()
    await refuse(other)
    both.land(1, qos=2)
    back = await remote.accept(session_present=True)
    released = []
    while isinstance(packet := await back.read(), Pubrel):
        released.append(packet.packet_id)
    assert first.packet_id in released
    assert isinstance(packet, Publish)
    assert (packet.payload, packet.dup) == (b"1", False)


async def test_a_host_that_shares_the_session_goes_on_with_it(remote: Remote, other: Remote, span: Any, tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    made = span(addresses=(("127.0.0.1", remote.port), ("127.0.0.1", other.port)), engine=engine)
    here = await remote.accept()
    made.land(1, qos=1)
    [first] = await here.publishes(1)
    here.cut()
    await refuse(remote)
    there = await other.accept(session_present=True)
    [again] = await there.publishes(1)
    assert (again.packet_id, again.dup) == (first.packet_id, True)
    there.send(Puback(again.packet_id))
    await until(lambda: made.outboxes[0].depth == 0)
    assert made.uplink.status.possibly_doubled == 0
    await made.uplink.stop()
    engine.close()
