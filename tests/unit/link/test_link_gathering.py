"""One batch per turn: runs are gathered, made safe, then acknowledged; not before, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridgehead.link import gathering as module
from bridgehead.link.gathering import Gathering
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Rows
from bridgehead.wire.packets import Publish, Pubrel
from making.device import turn


class SlowKeeper:
    """An engine whose promise is kept when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.between: list[Callable[[], None]] = []
        self.syncing = False
        self.hurried = 0  # callbacks that waited when it was asked to hurry

    def between_syncs(self, callback: Callable[[], None]) -> None:
        if self.syncing:
            self.between.append(callback)
        else:
            callback()

    def when_synced(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def hurry_sync(self) -> None:
        self.hurried = len(self.waiting)

    def sync(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()
        self.syncing = False
        between, self.between = self.between, []
        for callback in between:
            callback()


class Sender:
    def __init__(self, gathering: Gathering[Any], number: int) -> None:
        self.gathering = gathering
        self.number = number
        self.inbound = np.zeros(1 << 16, np.uint8)
        self.keeps_ids = False
        self.replies = b""
        self.failures = 0

    def send(self, *packets: Publish | Pubrel) -> None:
        data = b"".join(encode(packet, 5) for packet in packets)
        run = self.gathering.intake.scan(data, 0, len(data), 5, self.number, self.inbound)
        self.gathering.received(self, run.replies, ids_changed=self.keeps_ids and run.ids_to > 0)

    def reply(self, data: bytes) -> None:
        self.replies += data

    def failed(self, rows: Rows) -> None:
        self.failures += 1


class Desk:
    def __init__(self) -> None:
        self.keeper = SlowKeeper()
        self.batches: list[tuple[int, int]] = []
        self.fault: Exception | None = None
        self.gathering: Gathering[Sender] = Gathering(self.keeper, self._accept)

    def _accept(self, rows: Rows, sources: list[Sender]) -> None:
        if self.fault:
            raise self.fault
        self.batches.append((len(rows.rows), len(sources)))


async def test_runs_of_one_turn_are_one_batch_and_are_acknowledged_when_it_is_safe() -> None:
    desk = Desk()
    one, two = Sender(desk.gathering, 1), Sender(desk.gathering, 2)
    one.send(Publish("a", b"", 1, packet_id=1))
    two.send(Publish("a", b"", 2, packet_id=2))
    one.send(Publish("a", b"", 1, packet_id=3))
    assert desk.batches == []
    await turn()
    assert desk.batches == [(3, 3)]
    assert desk.keeper.hurried == 1, "whoever has sent something waits for nothing else that the loop may do"
    assert (one.replies, two.replies) == (b"", b"")
    desk.keeper.sync()
    assert (one.replies, two.replies) == (b"\x40\x02\x00\x01\x40\x02\x00\x03", b"\x50\x02\x00\x02")


async def test_a_run_without_messages_waits_for_those_before_it() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    one.send(Publish("a", b"", 2, packet_id=1))
    desk.gathering.flush()
    one.send(Pubrel(1))
    desk.gathering.flush()
    assert desk.batches == [(1, 1)]
    desk.keeper.sync()
    assert one.replies == b"\x50\x02\x00\x01\x70\x02\x00\x01"


async def test_a_turn_that_only_releases_ids_that_are_kept_is_accepted_without_rows() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    one.keeps_ids = True
    one.inbound[1] = 1
    one.send(Pubrel(1))
    desk.gathering.flush()
    assert desk.batches == [(0, 1)]
    one.send(Pubrel(1))  # nothing changes: there is nothing to write
    desk.gathering.flush()
    assert desk.batches == [(0, 1)]
    desk.keeper.sync()
    assert one.replies == b"\x70\x02\x00\x01\x70\x03\x00\x01\x92"


async def test_a_turn_that_grows_too_large_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTAKE_BYTES", 1000)
    desk = Desk()
    one = Sender(desk.gathering, 1)
    one.send(Publish("a", bytes(600)))
    assert desk.batches == []
    one.send(Publish("a", bytes(600)))
    assert desk.batches == [(2, 2)]
    await turn()
    assert desk.batches == [(2, 2)]


async def test_what_comes_while_a_sync_runs_is_one_batch_when_it_has_ended() -> None:
    desk = Desk()
    one, two = Sender(desk.gathering, 1), Sender(desk.gathering, 2)
    desk.keeper.syncing = True
    one.send(Publish("a", b"", 1, packet_id=1))
    await turn()
    two.send(Publish("a", b"", 1, packet_id=2))
    await turn()
    assert desk.batches == []
    desk.keeper.sync()
    await turn()
    assert desk.batches == [(2, 2)]
    desk.keeper.sync()
    assert (one.replies, two.replies) == (b"\x40\x02\x00\x01", b"\x40\x02\x00\x02")


async def test_a_turn_ends_when_a_look_at_the_sockets_brings_nothing_more() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    one.send(Publish("a", b"", 1, packet_id=1))
    await asyncio.sleep(0)
    one.send(Publish("a", b"", 1, packet_id=2))
    await asyncio.sleep(0)
    assert desk.batches == [], "there may be more"
    await asyncio.sleep(0)
    assert desk.batches == [(2, 2)]
    await turn()
    assert desk.batches == [(2, 2)]


async def test_a_turn_ends_after_a_few_looks_however_much_each_of_them_brings() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    sent = 0
    while not desk.batches:
        sent += 1
        one.send(Publish("a", b"", 1, packet_id=sent))
        await asyncio.sleep(0)
        assert sent < 100
    assert desk.batches == [(module.LOOKS + 1, module.LOOKS + 1)]
    one.send(Publish("a", b"", 1, packet_id=sent + 1))
    await turn()
    assert len(desk.batches) == 2, "the next turn has looks of its own"


async def test_what_comes_when_a_sync_has_just_ended_is_part_of_the_turn_that_waited_for_it() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    desk.keeper.syncing = True
    one.send(Publish("a", b"", 1, packet_id=1))
    await turn()
    assert len(desk.keeper.between) == 1
    desk.keeper.sync()
    await asyncio.sleep(0)  # what the sync has made safe is sent
    one.send(Publish("a", b"", 1, packet_id=2))
    await turn()
    assert desk.batches == [(2, 2)]


async def test_others_whose_syncs_follow_each_other_keep_a_turn_waiting_once_and_not_for_ever() -> None:
    desk = Desk()
    one = Sender(desk.gathering, 1)
    desk.keeper.syncing = True
    one.send(Publish("a", b"", 1, packet_id=1))
    await turn()
    desk.keeper.sync()
    desk.keeper.syncing = True  # somebody else waited for that end, too, and the next one has begun
    await turn()
    assert desk.batches == []
    desk.keeper.sync()
    assert desk.batches == [(1, 1)], "before another one begins"
    desk.keeper.syncing = True
    one.send(Publish("a", b"", 1, packet_id=2))
    await turn()
    desk.keeper.sync()
    one.send(Publish("a", b"", 1, packet_id=3))
    await turn()
    assert desk.batches == [(1, 1), (2, 2)], "the next turn may look again"


async def test_what_is_large_enough_is_worked_on_while_a_sync_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH_BYTES", 1000)
    desk = Desk()
    one = Sender(desk.gathering, 1)
    desk.keeper.syncing = True
    one.send(Publish("a", bytes(1100)))
    await turn()
    assert desk.batches == [(1, 1)]


async def test_a_flush_of_nothing_does_nothing() -> None:
    desk = Desk()
    desk.gathering.flush()
    assert desk.keeper.waiting == []


async def test_a_turn_that_fails_acknowledges_nothing_tells_each_sender_once_and_the_next_one_works() -> None:
    desk = Desk()
    one, two = Sender(desk.gathering, 1), Sender(desk.gathering, 2)
    desk.fault = ValueError("a fault of ours")
    one.send(Publish("a", b"", 1, packet_id=1))
    one.send(Publish("a", b"", 1, packet_id=2))
    two.send(Publish("a", b"", 1, packet_id=3))
    await turn()
    desk.keeper.sync()
    assert (one.failures, two.failures, one.replies, two.replies) == (1, 1, b"", b"")
    desk.fault = None
    one.send(Publish("a", b"", 1, packet_id=4))
    await turn()
    desk.keeper.sync()
    assert desk.batches == [(1, 1)]
    assert one.replies == b"\x40\x02\x00\x04"
