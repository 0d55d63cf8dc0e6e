"""QoS 2 towards the remote through crashes of the node at exact moments: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridgehead.bridge import outgoing
from bridgehead.bridge.outgoing import LAST_ID, WINDOW
from bridgehead.clock import now_us
from bridgehead.wire.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from bridgehead.wire.reason import Reason
from making.power import PowerEngine
from making.remote import Remote, Visit
from making.span import Span, until

Start = Callable[..., Awaitable[tuple[Span, Visit]]]


def told(publishes: list[Publish]) -> list[tuple[int, int, bool]]:
    """(number, packet id, dup) of each."""
    return [(int(one.payload), one.packet_id, one.dup) for one in publishes]


@pytest.fixture
async def start(remote: Remote) -> AsyncIterator[Start]:
    """A life of the node, connected to the remote."""
    spans: list[Span] = []

    async def make(engine: PowerEngine, *, present: bool = True, allows: Any = None, **given: Any) -> tuple[Span, Visit]:
        remote.version = given.get("version", 5)
        spans.append(Span(remote.port, engine=engine, **given))
        spans[-1].uplink.start()
        visit = await remote.accept(session_present=present, **(allows or {}))
        await until(lambda: spans[-1].uplink.connected)
        return spans[-1], visit

    yield make
    for one in spans:
        await one.die()


async def die(bridge: Span, lose: int = 0) -> PowerEngine:
    """The node is gone; the engine of its next life."""
    assert isinstance(bridge.engine, PowerEngine)
    after = bridge.engine.crash(lose)
    await bridge.die()
    return after


async def test_no_byte_of_a_qos_2_message_leaves_before_its_id_is_safe(start: Start) -> None:
    bridge, visit = await start(PowerEngine(automatic=False), present=False)
    bridge.land(2, qos=2)
    bridge.land(1, qos=0)
    bridge.land(1, qos=1)
    assert await visit.silent()
    bridge.engine.sync()  # type: ignore[attr-defined]
    assert [int(one.payload) for one in await visit.publishes(4)] == [0, 1, 2, 3]


async def test_a_bridge_without_qos_2_never_waits_for_the_disk(start: Start) -> None:
    bridge, visit = await start(PowerEngine(automatic=False), present=False)
    bridge.land(2, qos=1)
    bridge.land(1, qos=0)
    assert [int(one.payload) for one in await visit.publishes(3)] == [0, 1, 2]
    visit.send(Puback(1), Puback(2))
    await until(lambda: bridge.outboxes[0].delivered == 3)


async def test_after_a_crash_before_the_id_was_safe_the_message_is_new(start: Start) -> None:
    bridge, _ = await start(PowerEngine(automatic=False), present=False)
    bridge.engine.sync()  # type: ignore[attr-defined]
    bridge.land(1, qos=2)
    await until(lambda: bridge.uplink.in_flight == 1)
    bridge, visit = await start(await die(bridge, lose=1))
    bridge.engine.sync()  # type: ignore[attr-defined]
    assert told(await visit.publishes(1)) == [(0, 1, False)]


async def test_after_a_crash_before_the_first_byte_left_the_message_comes_with_its_id(start: Start) -> None:
    bridge, _ = await start(PowerEngine(automatic=False), present=False)
    bridge.land(1, qos=2)
    await until(lambda: bridge.uplink.in_flight == 1)
    bridge, visit = await start(await die(bridge))
    bridge.engine.sync()  # type: ignore[attr-defined]
    assert told(await visit.publishes(1)) == [(0, 1, True)]
    visit.send(Pubrec(1))
    await until(lambda: bridge.engine.unsynced > 0)  # type: ignore[attr-defined]
    assert await visit.silent(), "PUBREC is recorded before PUBREL leaves"
    bridge.engine.sync()  # type: ignore[attr-defined]
    assert await visit.next(Pubrel) == Pubrel(1)
    visit.send(Pubcomp(1))
    await until(lambda: bridge.outboxes[0].depth == 0)


async def test_after_a_crash_behind_publish_the_same_id_comes_again_with_dup(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(3, qos=2)
    assert told(await visit.publishes(3)) == [(0, 1, False), (1, 2, False), (2, 3, False)]
    bridge, visit = await start(await die(bridge))
    bridge.land(1, qos=2)
    assert told(await visit.publishes(4)) == [(0, 1, True), (1, 2, True), (2, 3, True), (0, 4, False)]
    assert bridge.uplink.status.possibly_doubled == 0


async def test_after_a_crash_before_pubrec_was_safe_the_message_comes_again_and_pubrel_had_not_left(start: Start) -> None:
    engine = PowerEngine()
    bridge, visit = await start(engine, present=False)
    bridge.land(1, qos=2)
    await visit.publishes(1)
    engine.automatic = False
    visit.send(Pubrec(1))
    await until(lambda: engine.unsynced == 1)
    assert await visit.silent()
    bridge, visit = await start(await die(bridge, lose=1))
    bridge.engine.sync()  # type: ignore[attr-defined]
    assert told(await visit.publishes(1)) == [(0, 1, True)]


async def test_after_a_crash_behind_the_record_of_pubrec_only_pubrel_comes(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(3, qos=2)
    await visit.publishes(3)
    visit.send(Pubrec(1), Pubrec(2))
    assert [(await visit.next(Pubrel)).packet_id for _ in range(2)] == [1, 2]
    bridge, visit = await start(await die(bridge))
    assert [(await visit.next(Pubrel)).packet_id for _ in range(2)] == [1, 2]
    assert told(await visit.publishes(1)) == [(2, 3, True)]
    assert bridge.outboxes[0].depth == 3
    visit.send(Pubcomp(1), Pubcomp(2, Reason.PACKET_IDENTIFIER_NOT_FOUND))
    await until(lambda: bridge.outboxes[0].delivered == 2)
    assert bridge.outboxes[0].depth == 1


@pytest.mark.parametrize("lost", [0, 1], ids=["done", "not-done"])
async def test_after_a_crash_behind_pubcomp_the_id_is_settled_again_and_nothing_comes_twice(start: Start, lost: int) -> None:
    engine = PowerEngine()
    bridge, visit = await start(engine, present=False)
    bridge.land(1, qos=2)
    await visit.publishes(1)
    visit.send(Pubrec(1))
    await visit.next(Pubrel)
    engine.automatic = False
    visit.send(Pubcomp(1))
    await until(lambda: bridge.outboxes[0].delivered == 1)
    after = await die(bridge, lose=lost)
    after.automatic = True
    bridge, visit = await start(after)
    assert await visit.next(Pubrel) == Pubrel(1)
    visit.send(Pubcomp(1))
    bridge.land(1, qos=2)
    assert told(await visit.publishes(1)) == [(0, 2, False)]
    await until(lambda: bridge.uplink.in_flight == 1)
    assert bridge.outboxes[0].depth == 1


async def test_a_connection_lost_while_the_id_waits_for_the_disk_sends_it_on_the_next_one_when_it_is_safe(
    start: Start, remote: Remote
) -> None:
    engine = PowerEngine(automatic=False)
    bridge, visit = await start(engine, present=False)
    bridge.land(2, qos=2)
    bridge.land(1, qos=0)
    assert await visit.silent()
    visit.cut()
    again = await remote.accept(session_present=True)
    await until(lambda: bridge.uplink.connected)
    assert await again.silent(), "still not safe"
    engine.sync()
    assert told(await again.publishes(3)) == [(0, 1, True), (1, 2, True), (2, 0, False)]


async def test_messages_that_never_left_are_not_possibly_doubled_when_the_session_is_lost(start: Start, remote: Remote) -> None:
    engine = PowerEngine()
    bridge, visit = await start(engine, present=False)
    bridge.land(1, qos=2)
    await visit.publishes(1)
    engine.automatic = False
    bridge.land(2, qos=2)
    await until(lambda: bridge.uplink.in_flight == 3)
    visit.cut()
    again = await remote.accept(session_present=False)
    await until(lambda: bridge.uplink.connected)
    engine.sync()
    assert [(number, dup) for number, _, dup in told(await again.publishes(3))] == [(0, False), (1, False), (2, False)]
    assert bridge.uplink.status.possibly_doubled == 1


async def test_rows_of_qos_1_before_and_between_kept_ids_keep_their_place_after_a_crash(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    for qos in (1, 2, 1, 2, 2, 1):
        bridge.land(1, qos=qos)
    assert [one.packet_id for one in await visit.publishes(6)] == [1, 2, 3, 4, 5, 6]
    visit.send(Puback(3), Pubrec(2))
    await visit.next(Pubrel)
    bridge, visit = await start(await die(bridge))
    assert await visit.next(Pubrel) == Pubrel(2)
    after = await visit.publishes(4)
    assert [(int(one.payload), one.qos, one.dup) for one in after] == [(0, 1, False), (3, 2, True), (4, 2, True), (5, 1, False)]
    assert [one.packet_id for one in after if one.qos == 2] == [4, 5]
    assert not {one.packet_id for one in after if one.qos == 1} & {2, 4, 5}


async def test_after_two_crashes_in_a_row_the_ids_are_still_the_same(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(3, qos=2)
    await visit.publishes(3)
    visit.send(Pubrec(1))
    await visit.next(Pubrel)
    bridge, visit = await start(await die(bridge), allows={"receive_maximum": 2})
    assert await visit.next(Pubrel) == Pubrel(1)
    assert told(await visit.publishes(1)) == [(1, 2, True)]
    bridge, visit = await start(await die(bridge))
    assert await visit.next(Pubrel) == Pubrel(1)
    assert told(await visit.publishes(2)) == [(1, 2, True), (2, 3, True)]


async def test_a_receive_maximum_that_is_smaller_after_the_crash_is_kept(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(10, qos=2)
    await visit.publishes(10)
    bridge, visit = await start(await die(bridge), allows={"receive_maximum": 3})
    for first in (0, 3, 6, 9):
        some = await visit.publishes(min(3, 10 - first))
        assert told(some) == [(first + i, first + i + 1, True) for i in range(len(some))]
        assert await visit.silent()
        for one in some:
            visit.send(Pubrec(one.packet_id))
            assert await visit.next(Pubrel) == Pubrel(one.packet_id)
        visit.send(*(Pubcomp(one.packet_id) for one in some))
    await until(lambda: bridge.outboxes[0].depth == 0)


async def test_over_3_1_1_no_more_than_20_kept_ones_are_in_flight_after_a_crash(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False, version=4)
    bridge.land(30, qos=2)
    await visit.publishes(20)
    visit.send(*(Pubrec(n) for n in range(1, 6)))
    for _ in range(5):
        await visit.next(Pubrel)
    bridge, visit = await start(await die(bridge), version=4)
    assert [(await visit.next(Pubrel)).packet_id for _ in range(5)] == [1, 2, 3, 4, 5]
    assert told(await visit.publishes(15)) == [(n, n + 1, True) for n in range(5, 20)]
    assert await visit.silent()
    visit.send(*(Pubcomp(n) for n in range(1, 6)))
    assert [int(one.payload) for one in await visit.publishes(5)] == [20, 21, 22, 23, 24]


async def test_a_session_that_is_lost_over_a_restart_makes_everything_new_in_order_and_counted(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(1, qos=1)
    bridge.land(3, qos=2)
    await visit.publishes(4)
    visit.send(Pubrec(2))
    await visit.next(Pubrel)
    bridge, visit = await start(await die(bridge), present=False)
    publishes = await visit.publishes(4)
    assert [(int(one.payload), one.dup) for one in publishes] == [(0, False), (1, False), (2, False), (3, False)]
    assert bridge.uplink.status.possibly_doubled == 3
    bridge, visit = await start(await die(bridge))
    again = await visit.publishes(4)
    kept = {int(one.payload): one.packet_id for one in publishes if one.qos == 2}
    assert {int(one.payload): one.packet_id for one in again if one.qos == 2} == kept


async def test_ids_of_another_client_id_mean_nothing(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(2, qos=2)
    await visit.publishes(2)
    bridge, visit = await start(await die(bridge), client_id="another")
    assert [(await visit.next(Pubrel)).packet_id for _ in range(LAST_ID)] == list(range(1, LAST_ID + 1))
    assert told(await visit.publishes(2)) == [(0, 1, False), (1, 2, False)]
    assert bridge.uplink.status.possibly_doubled == 2


async def test_a_first_start_releases_every_id_and_a_later_one_none(start: Start) -> None:
    bridge, visit = await start(PowerEngine())
    assert [(await visit.next(Pubrel)).packet_id for _ in range(LAST_ID)] == list(range(1, LAST_ID + 1))
    bridge, visit = await start(await die(bridge))
    assert await visit.silent()


async def test_routes_are_known_by_their_names_and_the_ids_of_one_that_is_gone_are_settled(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False, routes=2)
    bridge.land(2, route=0, qos=2)
    bridge.land(2, route=1, qos=2)
    ids = {(one.topic, int(one.payload)): one.packet_id for one in await visit.publishes(4)}
    engine = await die(bridge)
    bridge, visit = await start(engine, names=["r1"])
    assert sorted([(await visit.next(Pubrel)).packet_id for _ in range(2)]) == sorted([ids["t0", 0], ids["t0", 1]])
    assert told(await visit.publishes(2)) == [(0, ids["t1", 0], True), (1, ids["t1", 1], True)]
    visit.send(Pubcomp(ids["t0", 0]), Pubcomp(ids["t0", 1]))
    await until(lambda: bridge.uplink.in_flight == 2)
    assert bridge.outboxes[0].depth == 2


async def test_a_kept_id_whose_row_is_dropped_before_it_was_sent_again_is_settled(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(3, qos=2)
    await visit.publishes(3)
    bridge, visit = await start(await die(bridge), allows={"receive_maximum": 1}, tier2=0)
    assert told(await visit.publishes(1)) == [(0, 1, True)]
    polled = bridge.outboxes[0].poll(2)
    assert polled is not None
    bridge.outboxes[0].drop(polled.seqs, "too-old")
    visit.send(Pubrec(1))
    assert await visit.next(Pubrel) == Pubrel(1)
    visit.send(Pubcomp(1))
    assert [(await visit.next(Pubrel)).packet_id for _ in range(2)] == [2, 3]
    visit.send(Pubcomp(2), Pubcomp(3))
    bridge.land(1, qos=2)
    assert told(await visit.publishes(1)) == [(0, 4, False)]


async def test_an_expired_row_with_a_kept_id_is_sent_all_the_same(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(2, qos=2, message_expiry=100, received_at=now_us())
    await visit.publishes(2)
    engine = await die(bridge)
    later = now_us() + 200_000_000
    monkeypatch.setattr(outgoing, "now_us", lambda: later)
    bridge, visit = await start(engine)
    assert told(await visit.publishes(2)) == [(0, 1, True), (1, 2, True)]


async def test_a_row_with_a_kept_id_that_has_become_too_large_is_a_dead_letter_and_its_id_settled(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(1, qos=2, content_type="x" * 600)
    bridge.land(1, qos=2)
    await visit.publishes(2)
    bridge, visit = await start(await die(bridge), allows={"maximum_packet_size": 500})
    packets = [await visit.read() for _ in range(2)]
    assert Pubrel(1) in packets
    assert told([packet for packet in packets if isinstance(packet, Publish)]) == [(1, 2, True)]
    assert bridge.outboxes[0].dead_lettered == {"too-large": 1}


async def test_while_the_disk_is_slow_the_watchdog_does_not_blame_the_remote(start: Start) -> None:
    engine = PowerEngine(automatic=False)
    bridge, visit = await start(engine, present=False)
    bridge.land(1, qos=2)
    await until(lambda: bridge.uplink.in_flight == 1)
    assert not bridge.uplink.outgoing.work().listening
    engine.sync()
    await visit.publishes(1)
    assert bridge.uplink.outgoing.work().listening


async def test_a_whole_window_of_kept_ids_comes_again_in_order(start: Start) -> None:
    bridge, visit = await start(PowerEngine(), present=False)
    bridge.land(WINDOW + 10, qos=2)
    first = told(await visit.publishes(WINDOW))
    bridge, visit = await start(await die(bridge))
    assert told(await visit.publishes(WINDOW)) == [(number, packet_id, True) for number, packet_id, _ in first]
    assert await visit.silent()
    visit.send(Pubrec(1))
    assert await visit.next(Pubrel) == Pubrel(1)
    visit.send(Pubcomp(1))
    assert [int(one.payload) for one in await visit.publishes(1)] == [WINDOW]
