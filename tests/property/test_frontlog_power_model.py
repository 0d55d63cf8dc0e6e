"""A loss of power at any moment: of what no sync covers, any sectors may be on the disk. What was synced is there.

The disk is played: beside what the kernel has, what the last sync left. At the end each sector of the front log is one or the
other by chance; RocksDB, whose log only grows, has all of what it wrote, or what its last sync left.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bridgehead.storage.keys import Kind, shelf_key
from bridgehead.storage.store import Store
from bridgehead.storage.values import pack_state
from making.crash import copy_as_left

SECTOR = 512
SOON_FULL = 6000
SIZES = st.sampled_from([0, 50, 700, 3000])


class PowerLosses(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def first_life(self, seed: int) -> None:
        self.chance = Random(seed)
        self.home = TemporaryDirectory()
        self.lives = 0
        self.begin(self.place("0"))

    def begin(self, directory: Path) -> None:
        self.store = Store(directory, front_bytes=SOON_FULL)
        found = dict(self.store.scan(Kind.STATE.value))
        self.story = [found]  # what was there after each write
        self.synced = 0
        self.directory = directory
        self.left = self.copied(directory)

    def place(self, name: str) -> Path:
        return Path(self.home.name) / name

    def copied(self, directory: Path) -> Path:
        to = self.place(f"{self.lives}-synced")
        shutil.rmtree(to, ignore_errors=True)
        copy_as_left(directory, to)
        return to

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
        self.left = self.copied(self.directory)

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
        shutil.copytree(now if rocks else self.left, following)
        for path in now.glob("front-*"):
            before = self.left / path.name
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


TestWhateverPowerLeavesIsOneMomentOfThePast = PowerLosses.TestCase
TestWhateverPowerLeavesIsOneMomentOfThePast.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
