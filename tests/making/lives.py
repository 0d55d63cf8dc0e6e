"""A story of one directory and the engines that lived on it, each ended by a kill or in order: models of storage tell it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bridgehead.storage.losses import Losses
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left

SOON_FULL = 4000
"""Bytes of a file of the front log: a story of a few writes fills some."""


class Lives(RuleBasedStateMachine):
    """A directory that outlives the engines on it."""

    @initialize()
    def first_life(self) -> None:
        self.home = TemporaryDirectory()
        self.lives = 0
        self.given = 0  # rows ever made: their payload is their number
        self.highest = -1  # the highest offset or sequence number ever given
        self.open(Path(self.home.name) / "0")
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def open(self, directory: Path) -> None:
        self.directory = directory
        self.engine = RocksEngine(directory, front_bytes=SOON_FULL)
        assert self.engine.losses.snapshot() == Losses().snapshot(), "a kill is no damage"

    @rule()
    def sync(self) -> None:
        self.engine._store.flush()

    @rule(kill=st.booleans())
    def next_life(self, kill: bool) -> None:
        self.lives += 1
        following = Path(self.home.name) / str(self.lives)
        incarnation = self.engine.incarnation
        if not kill:
            self.engine.close()
        copy_as_left(self.directory, following)
        self.engine.close()
        self.open(following)
        assert self.engine.incarnation == incarnation
        self.found_again()

    def found_again(self) -> None:
        raise NotImplementedError

    def payloads(self, count: int, qos: tuple[int, ...]) -> list[dict[str, object]]:
        first, self.given = self.given, self.given + count
        return [{"payload": str(n).encode(), "qos": qos[n % len(qos)]} for n in range(first, self.given)]

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.home.cleanup()
