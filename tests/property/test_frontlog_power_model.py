"""A loss of power at any moment: of what no sync covers, any sectors may be on the disk. What was synced is there.

The disk is played: beside what the kernel has, what the last sync left. At the end each sector of the front log is one or the
other by chance; RocksDB, whose log only grows, has all of what it wrote, or what its last sync left. Syncs take their time:
what is written meanwhile may be on the disk or not.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bridgehead.storage.keys import Kind, shelf_key
from bridgehead.storage.store import Store
from bridgehead.storage.values import pack_state
from making.crash import copy_as_left

SECTOR = 512
SOON_FULL = 6000
SIZES = st.sampled_from([0, 50, 700, 3000])


class RocksSync:
    """A sync of RocksDB: it happens when it is its time, or when somebody waits for it."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync: Callable[[], None] | None = sync

    def done(self) -> bool:
        return self._sync is None

    def result(self) -> None:
        if self._sync is not None:
            self._sync()
            self._sync = None


class RocksSyncs:
    """In the place of the thread that has them."""

    def __init__(self, synced: Callable[[], None]) -> None:
        self._synced = synced
        self.latest: RocksSync | None = None

    def submit(self, sync: Callable[..., None], *arguments: bool) -> RocksSync:
        def happen() -> None:
            sync(*arguments)
            self._synced()

        self.latest = RocksSync(happen)
        return self.latest

    def shutdown(self) -> None:
        pass


class PowerLosses(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def first_life(self, seed: int) -> None:
        self.chance = Random(seed)
        self.home = TemporaryDirectory()
        self.lives = 0
        self.begin(self.place("0"))

    def begin(self, directory: Path) -> None:
        self.store = Store(directory, front_bytes=SOON_FULL)
        self.rocks_syncs = RocksSyncs(lambda: self.copied("rocks"))
        self.store._thread = self.rocks_syncs  # type: ignore[assignment]
        found = dict(self.store.scan(Kind.STATE.value))
        self.story = [found]  # what was there after each write
        self.synced = 0
        self.directory = directory
        self.syncing: int | None = None  # how much of the story a sync covers that is under way
        self.copied("front")
        self.copied("rocks")

    def place(self, name: str) -> Path:
        return Path(self.home.name) / name

    def copied(self, part: str) -> Path:
        """What a sync leaves, or would leave: of the front log, or of RocksDB."""
        to = self.place(f"{self.lives}-{part}")
        shutil.rmtree(to, ignore_errors=True)
        copy_as_left(self.directory, to)
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
        if self.store._front.safe == self.store._front.written:
            self.all_synced()  # a file that had grown too long

    @rule()
    def sync(self) -> None:
        self.store.flush()
        self.all_synced()

    def all_synced(self) -> None:
        self.overtaken = True
        self.synced = len(self.story) - 1
        self.copied("front")

    @precondition(lambda self: self.syncing is None)
    @rule()
    def begin_sync(self) -> None:
        self.store.begin_flush()
        self.syncing = len(self.story) - 1
        self.overtaken = False  # by another one, which was waited for
        self.copied("covered")

    @precondition(lambda self: self.syncing is not None)
    @rule()
    def end_sync(self) -> None:
        self.store.end_flush()
        assert self.syncing is not None
        if not self.overtaken:
            self.synced = self.syncing
            shutil.rmtree(self.place(f"{self.lives}-front"))
            self.place(f"{self.lives}-covered").rename(self.place(f"{self.lives}-front"))
        self.syncing = None

    @precondition(lambda self: self.rocks_syncs.latest is not None)
    @rule()
    def rocksdb_syncs(self) -> None:
        assert self.rocks_syncs.latest is not None
        self.rocks_syncs.latest.result()

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
        front, synced_rocks = (self.place(f"{self.lives - 1}-{part}") for part in ("front", "rocks"))
        shutil.copytree(now if rocks else synced_rocks, following, ignore=shutil.ignore_patterns("front-*"))
        for path in now.glob("front-*"):
            before = front / path.name
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
TestWhateverPowerLeavesIsOneMomentOfThePast.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
