"""Syncs: one for all who wait, while the loop goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from bridgehead.storage.syncing import Syncing


class Disk:
    """Whose syncs end when they are told to."""

    def __init__(self) -> None:
        self.flushed = os.eventfd(0, os.EFD_NONBLOCK)
        self.begun = asyncio.Event()
        self.syncs = 0
        self.fault: OSError | None = None

    def begin_flush(self) -> None:
        self.syncs += 1
        self.begun.set()

    def end(self) -> None:
        self.begun.clear()
        os.eventfd_write(self.flushed, 1)

    def end_flush(self) -> None:
        os.eventfd_read(self.flushed)
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    os.close(disk.flushed)


@pytest.fixture
def syncs(disk: Disk) -> Iterator[Syncing]:
    syncs = Syncing(disk, lambda error: None)
    yield syncs
    syncs.close()


async def test_a_sync_covers_whatever_the_turn_writes_that_asked_for_it(disk: Disk, syncs: Syncing) -> None:
    told: list[int] = []
    done = asyncio.Event()
    for number in range(3):
        syncs.wrote()
        syncs.when_safe(lambda number=number: told.append(number))
    syncs.when_safe(done.set)
    await disk.begun.wait()
    assert told == []
    disk.end()
    await done.wait()
    assert (told, disk.syncs) == ([0, 1, 2], 1)


async def test_whoever_is_in_a_hurry_does_not_wait_for_the_end_of_the_turn(disk: Disk, syncs: Syncing) -> None:
    safe = asyncio.Event()
    syncs.hurry()
    assert disk.syncs == 0, "nobody has asked for one"
    syncs.wrote()
    syncs.when_safe(safe.set)
    assert disk.syncs == 0
    syncs.hurry()
    assert disk.syncs == 1
    syncs.hurry()
    disk.end()
    await safe.wait()
    assert disk.syncs == 1, "it was begun once"


async def test_the_next_sync_begins_when_all_have_written_who_waited_for_the_last_one(disk: Disk, syncs: Syncing) -> None:
    safe: list[int] = []

    def write(number: int) -> None:
        syncs.wrote()
        syncs.when_safe(lambda: safe.append(number))
        syncs.hurry()

    write(0)
    for number in (1, 2):
        syncs.between(lambda number=number: write(number))
    disk.end()
    syncs._ended()
    assert (safe, disk.syncs) == ([0], 2), "at once, and one for both of them"
    disk.end()
    syncs._ended()
    assert (safe, disk.syncs) == ([0, 1, 2], 2)


async def test_a_fault_of_one_who_is_told_keeps_nobody_else_waiting(disk: Disk, syncs: Syncing) -> None:
    told: list[str] = []
    done = asyncio.Event()

    def fault() -> None:
        raise ZeroDivisionError

    syncs.wrote()
    syncs.when_safe(fault)
    syncs.when_safe(lambda: told.append("covered"))
    syncs.hurry()
    syncs.between(lambda: told.append("between"))
    syncs.wrote()
    syncs.when_safe(done.set)
    disk.end()
    with pytest.raises(ZeroDivisionError):
        syncs._ended()
    assert disk.syncs == 2, "the next one has begun"
    disk.end()
    await done.wait()
    assert sorted(told) == ["between", "covered"]


async def test_what_nobody_waits_for_is_done_when_a_sync_has_begun(disk: Disk, syncs: Syncing) -> None:
    done: list[str] = []

    def fault() -> None:
        raise ZeroDivisionError

    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    syncs.during(fault)
    syncs.during(lambda: done.append("later"))
    syncs.wrote()
    syncs.when_safe(lambda: done.append("safe"))
    assert (done, disk.syncs) == ([], 0)
    syncs.hurry()
    assert (done, disk.syncs) == ([], 1), "whoever has begun it is not done yet"
    await asyncio.sleep(0)
    assert (done, len(faults)) == (["later"], 1)
    syncs.during(lambda: done.append("at once"))
    assert done == ["later", "at once"]
    disk.end()
    syncs._ended()
    assert done == ["later", "at once", "safe"]


async def test_what_nobody_waits_for_is_done_in_a_moment_where_nothing_is_synced(disk: Disk, syncs: Syncing) -> None:
    one, two = asyncio.Event(), asyncio.Event()
    syncs.during(one.set)
    await asyncio.wait_for(one.wait(), 30)
    syncs.during(two.set)
    await asyncio.wait_for(two.wait(), 30)
    assert disk.syncs == 0


async def test_after_a_failure_nobody_is_told_that_there_is_time(disk: Disk, syncs: Syncing) -> None:
    told: list[int] = []
    syncs.during(lambda: told.append(1))
    syncs.stop()
    await asyncio.sleep(0.01)
    assert told == []


async def test_what_is_written_while_a_sync_runs_is_covered_by_the_next(disk: Disk, syncs: Syncing) -> None:
    told: list[int] = []
    syncs.wrote()
    syncs.when_safe(lambda: told.append(1))
    await disk.begun.wait()
    syncs.wrote()
    safe = asyncio.Event()
    syncs.when_safe(safe.set)
    disk.end()
    await disk.begun.wait()
    assert (told, disk.syncs, safe.is_set()) == ([1], 2, False)
    disk.end()
    await safe.wait()


async def test_whoever_asks_when_everything_is_safe_is_told_at_once(disk: Disk, syncs: Syncing) -> None:
    told: list[int] = []
    syncs.when_safe(lambda: told.append(1))
    syncs.wrote()
    syncs.all_safe()
    syncs.when_safe(lambda: told.append(2))
    assert (told, disk.syncs) == ([1, 2], 0)


@pytest.mark.parametrize("fails", ["at its begin", "at its end"])
async def test_a_sync_that_fails_tells_nobody_who_waits(disk: Disk, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    syncs = Syncing(disk, failed.set_result)
    disk.fault = OSError("no space")
    if fails == "at its begin":

        def broken() -> None:
            raise OSError("no space")

        monkeypatch.setattr(disk, "begin_flush", broken)
    told: list[int] = []
    syncs.wrote()
    syncs.when_safe(lambda: told.append(1))
    syncs.between(lambda: told.append(2))
    disk.end()
    assert str(await failed) == "no space"
    syncs.when_safe(lambda: told.append(3))
    await asyncio.sleep(0)
    assert told == []
    syncs.close()


async def test_when_all_is_safe_and_nobody_has_written_for_a_moment_it_is_said_once(disk: Disk) -> None:
    rests: asyncio.Queue[int] = asyncio.Queue()
    syncs = Syncing(disk, lambda error: None, lambda: rests.put_nowait(disk.syncs))
    syncs.wrote()
    syncs.when_safe(lambda: None)
    await disk.begun.wait()
    disk.end()
    assert await rests.get() == 1
    syncs.close()


async def test_what_has_failed_before_is_not_told_again_by_the_sync_under_way(disk: Disk) -> None:
    failures: list[BaseException] = []
    syncs = Syncing(disk, failures.append)
    syncs.wrote()
    syncs.when_safe(lambda: None)
    await disk.begun.wait()
    syncs.stop()  # a write has failed
    disk.fault = OSError("no space")
    disk.end()
    syncs._ended()
    assert failures == []
    syncs.close()
