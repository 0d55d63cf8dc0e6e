"""A loss of power at any moment: of what no sync covers, any sectors may be on the disk. What was synced is there.

The disk is played: beside what the kernel has, what the last sync left. At the end each sector of the front log is one or the
other by chance; RocksDB, whose log only grows, has all of what it wrote, or what its last sync left. Syncs take their time:
what is written meanwhile may be on the disk or not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bridgehead.storage import store as store_module
from bridgehead.storage.keys import Kind, shelf_key
from bridgehead.storage.store import Store
from bridgehead.storage.values import pack_state
from making.crash import copy_as_left

SECTOR = 512
SOON_FULL = 6000
PIECE = 1000  # moves to RocksDB at once
SIZES = st.sampled_from([0, 50, 700, 3000])


class RocksSync:
    """A sync of RocksDB: it ends when it is its time, or when somebody waits for it."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def done(self) -> bool:
        return self._end is None

    def result(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None


class PowerLosses(RuleBasedStateMachine):
    """What a sync leaves is seen by what the store asks the kernel for, and not by what it says."""

    @initialize(seed=st.integers(0, 2**32))
    def first_life(self, seed: int) -> None:
        self.chance = Random(seed)
        self.home = TemporaryDirectory()
        self.lives = 0
        self.fdatasync = os.fdatasync
        self.watching = [
            patch.object(os, "fdatasync", self.synced_at_once),
            patch.object(store_module, "PIECE_BYTES", PIECE),
        ]
        for each in self.watching:
            each.start()
        self.begin(self.place("0"))

    def begin(self, directory: Path) -> None:
        self.front, self.covered = (self.place(f"{self.lives}-{part}") for part in ("front", "covered"))
        for each in (self.front, self.covered):
            each.mkdir()
        self.store = Store(directory, front_bytes=SOON_FULL)
        self.store._thread = self  # type: ignore[assignment]
        thread = self.store._front._thread
        self.ask, thread.begin = thread.begin, self.sync_begins  # type: ignore[method-assign]
        self.wait, thread.wait = thread.wait, self.sync_ends  # type: ignore[method-assign]
        self.rocks_sync: RocksSync | None = None
        found = dict(self.store.scan(Kind.STATE.value))
        self.story = [found]  # what was there after each write
        self.synced = 0
        self.directory = directory
        self.syncing: int | None = None  # how much of the story a sync covers that is under way
        copy_as_left(directory, self.place(f"{self.lives}-rocks"))

    # -- what the store asks for --------------------------------------------------------------------------------------

    def synced_at_once(self, file: int) -> None:
        self.fdatasync(file)
        path = path_of(file)
        shutil.copy(path, self.front)

    def sync_begins(self, files: Sequence[int]) -> None:
        self.ask(files)
        for file in files:
            shutil.copy(path_of(file), self.covered)

    def sync_ends(self) -> OSError | None:
        fault = self.wait()
        for path in self.covered.iterdir():
            path.replace(self.front / path.name)
        return fault

    def submit(self, sync: Callable[[bool], None], to_disk: bool) -> RocksSync:
        """In the place of the thread in which RocksDB syncs."""
        covered = self.place(f"{self.lives}-rocks-covered")
        shutil.rmtree(covered, ignore_errors=True)
        copy_as_left(self.directory, covered)

        def end() -> None:
            sync(to_disk)
            if to_disk:
                left = self.place(f"{self.lives}-rocks")
                shutil.rmtree(left)
                covered.rename(left)

        self.rocks_sync = RocksSync(end)
        return self.rocks_sync

    def shutdown(self) -> None:
        pass

    # -- the story ----------------------------------------------------------------------------------------------------

    def place(self, name: str) -> Path:
        return Path(self.home.name) / name

    @rule(keys=st.lists(st.integers(0, 5), min_size=1, max_size=3), size=SIZES, gone=st.booleans())
    def write(self, keys: list[int], size: int, gone: bool) -> None:
        after = dict(self.story[-1])
        changes = []
        for number in keys:
            key = shelf_key(Kind.STATE, (str(number),))
            value = None if gone else pack_state(key, self.chance.randbytes(size))
            changes.append((key, value))
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
        self.store.write(changes)
        self.story.append(after)

    @rule()
    def sync(self) -> None:
        self.store.flush()
        self.synced = len(self.story) - 1

    @precondition(lambda self: self.syncing is None)
    @rule()
    def begin_sync(self) -> None:
        self.store.begin_flush()
        self.syncing = len(self.story) - 1

    @precondition(lambda self: self.syncing is not None)
    @rule()
    def end_sync(self) -> None:
        self.store.end_flush()
        assert self.syncing is not None
        self.synced = max(self.synced, self.syncing)
        self.syncing = None

    @precondition(lambda self: self.rocks_sync is not None)
    @rule()
    def rocksdb_syncs(self) -> None:
        assert self.rocks_sync is not None
        self.rocks_sync.result()

    @rule()
    def pay(self) -> None:
        self.store.pay()

    @rule()
    def rest(self) -> None:
        self.store.say_what_is_safe()

    @rule(rocks=st.booleans())
    def lose_power(self, rocks: bool) -> None:
        now = self.place(f"{self.lives}-now")
        copy_as_left(self.directory, now)
        self.store.close(broken=True)
        self.lives += 1
        following = self.place(str(self.lives))
        left = now if rocks else self.place(f"{self.lives - 1}-rocks")
        shutil.copytree(left, following, ignore=shutil.ignore_patterns("front-*"))
        for path in now.glob("front-*"):
            before = self.front / path.name
            (following / path.name).write_bytes(self.mixed(before.read_bytes() if before.exists() else b"", path.read_bytes()))
        story, synced = self.story, self.synced
        incarnation = self.store.incarnation
        self.begin(following)
        assert self.store.incarnation == incarnation, "a loss of power is no damage"
        assert self.story[0] in story[synced:], "one moment of the past, and not before the last sync"

    def mixed(self, before: bytes, after: bytes) -> bytes:
        found = bytearray(after[: self.chance.choice([len(before), len(after)])] if len(after) > len(before) else after)
        for start in range(0, len(found), SECTOR):
            if self.chance.random() < 0.3:
                old = before[start : start + SECTOR].ljust(SECTOR, b"\0")
                found[start : start + SECTOR] = old[: len(found[start : start + SECTOR])]
        return bytes(found)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close(broken=True)
            self.home.cleanup()
            for each in self.watching:
                each.stop()


def path_of(file: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{file}"))


TestWhateverPowerLeavesIsOneMomentOfThePast = PowerLosses.TestCase
TestWhateverPowerLeavesIsOneMomentOfThePast.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
