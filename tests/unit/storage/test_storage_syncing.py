"""Syncs: one for all who wait, in the loop while the disk is quick, beside it while it is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from bridgehead.storage import syncing
from bridgehead.storage.syncing import MOST_TRUST, TRUST, Syncing


class Disk:
    """Says in which thread it was synced; what a sync takes is told to it."""

    def __init__(self) -> None:
        self.here: list[bool] = []
        self.takes = 0.0
        self.now = 0.0

    def flush(self) -> None:
        self.here.append(threading.current_thread() is threading.main_thread())
        self.now += self.takes


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(syncing.clock, "monotonic", lambda: disk.now)
    return disk


@pytest.fixture
def syncs(disk: Disk) -> Iterator[Syncing]:
    syncs = Syncing(disk.flush, lambda error: None)
    yield syncs
    syncs.close()


async def sync(syncs: Syncing) -> None:
    syncs.wrote()
    safe = asyncio.Event()
    syncs.when_safe(safe.set)
    assert not safe.is_set()
    await asyncio.wait_for(safe.wait(), 30)


async def test_a_disk_is_waited_for_in_the_loop_when_it_has_been_quick_for_a_while(disk: Disk, syncs: Syncing) -> None:
    for _ in range(TRUST + 2):
        await sync(syncs)
    assert disk.here == [False] * TRUST + [True] * 2


async def test_a_slow_disk_is_waited_for_elsewhere_until_it_has_been_quick_again(disk: Disk, syncs: Syncing) -> None:
    for _ in range(TRUST):
        await sync(syncs)
    disk.takes = 1.0
    await sync(syncs)
    disk.takes = 0.0
    for _ in range(TRUST + 1):
        await sync(syncs)
    assert disk.here[TRUST:] == [True] + [False] * TRUST + [True]


async def test_a_disk_that_was_quick_for_long_may_be_slow_now_and_then(disk: Disk, syncs: Syncing) -> None:
    for _ in range(MOST_TRUST):
        await sync(syncs)
    for _ in range(3):
        disk.takes = 1.0
        await sync(syncs)
        disk.takes = 0.0
        for _ in range(TRUST):
            await sync(syncs)
    assert disk.here == [False] * TRUST + [True] * (MOST_TRUST - TRUST + 3 * (TRUST + 1))


async def test_a_thread_that_waits_for_a_busy_interpreter_makes_no_slow_disk_of_a_quick_one(disk: Disk, syncs: Syncing) -> None:
    for number in range(2 * TRUST):
        disk.takes = 1.0 if number % 2 else 0.0
        await sync(syncs)
    assert disk.here == [False] * (2 * TRUST - 1) + [True]


async def test_a_sync_in_the_loop_covers_whatever_its_turn_writes(disk: Disk, syncs: Syncing) -> None:
    for _ in range(TRUST):
        await sync(syncs)
    told: list[int] = []
    for number in range(3):
        syncs.wrote()
        syncs.when_safe(lambda number=number: told.append(number))
    await asyncio.sleep(0)
    assert (told, len(disk.here)) == ([0, 1, 2], TRUST + 1)


async def test_a_sync_in_the_loop_that_fails_tells_nobody_who_waits(disk: Disk) -> None:
    failures: list[BaseException] = []
    syncs = Syncing(disk.flush, failures.append)
    for _ in range(TRUST):
        await sync(syncs)
    told: list[int] = []

    def broken() -> None:
        raise OSError("no space")

    syncs._flush = broken
    syncs.wrote()
    syncs.when_safe(lambda: told.append(1))
    syncs.between(lambda: told.append(2))
    await asyncio.sleep(0)
    syncs.when_safe(lambda: told.append(3))
    await asyncio.sleep(0)
    assert told == []
    assert [str(error) for error in failures] == ["no space"]
    syncs.close()
