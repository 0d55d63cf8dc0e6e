"""The outbox against a list of rows with a state each."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.segments import FAN, SMALL_ROWS
from making.lives import SOON_FULL
from making.rows import numbers, outbox_rows

WAITING, MARKED, DONE = "waiting", "marked", "done"


class OutboxMachine(RuleBasedStateMachine):
    def new_engine(self) -> Engine:
        return MemoryEngine()

    @initialize(limits=st.sampled_from([(10_000, 1 << 30)] * 3 + [(100, 1 << 30), (10_000, 10_000), (5, 10_000)]))
    def start(self, limits: tuple[int, int]) -> None:
        max_rows, max_bytes = limits
        self.engine = self.new_engine()
        self.outbox = Outbox("r", self.engine, max_rows, max_bytes)
        self.max_rows, self.max_bytes = max_rows, max_bytes
        self.rows: list[str] = []  # the state of each row by its sequence number
        self.entered = self.delivered = self.dropped = 0
        self.told = 0
        self.outbox.on_waiting = self._told

    def _told(self) -> None:
        assert self.outbox.has_waiting
        self.told += 1

    @property
    def depth(self) -> int:
        return len(self.rows) - self.rows.count(DONE)

    def _land(self, count: int) -> None:
        free = self.max_bytes - self.outbox.live_weight
        changes = Changes()
        rows = [{"payload": str(len(self.rows) + i).encode()} for i in range(count)]
        took = self.outbox.land(changes, outbox_rows(*rows))
        self.engine.write(changes)
        told = self.told
        self.outbox.landed()
        room = max(self.max_rows - self.depth, 0)
        starts = np.cumsum([0, *(65 + len(row["payload"]) for row in rows[:-1])])  # a row enters where a byte is free
        assert took == min(room, int(np.count_nonzero(starts < free)))
        self.rows += [WAITING] * took
        self.entered += count
        self.dropped += count - took
        if WAITING in self.rows:
            assert self.told == told + 1, "whoever waits is told, every time"

    @rule(count=st.integers(1, 2 * SMALL_ROWS))
    def land(self, count: int) -> None:
        self._land(count)

    @rule(count=st.integers(1, 3), times=st.sampled_from([1, FAN // 2, FAN - 1, FAN, 2 * FAN]))
    def land_many_small_ones(self, count: int, times: int) -> None:
        for _ in range(times):
            self._land(count)

    @rule(max_rows=st.integers(1, 200))
    def poll(self, max_rows: int) -> None:
        self._poll(max_rows)

    @rule()
    def poll_all(self) -> None:
        while WAITING in self.rows:
            self._poll(1000)

    def _poll(self, max_rows: int) -> None:
        polled = self.outbox.poll(max_rows)
        if WAITING not in self.rows:
            assert polled is None
            assert not self.outbox.has_waiting
            return
        assert polled is not None
        first = self.rows.index(WAITING)
        assert polled.first == first
        assert 1 <= polled.rows <= max_rows
        for seq in range(first, first + polled.rows):
            assert self.rows[seq] == WAITING
            self.rows[seq] = MARKED
        assert numbers(polled.batch) == list(range(first, first + polled.rows))

    def _some(self, data: st.DataObject, state: str) -> list[int]:
        found = [seq for seq, own in enumerate(self.rows) if own == state]
        if not found:
            return []
        if data.draw(st.booleans()):
            low, high = sorted(data.draw(st.tuples(st.sampled_from(found), st.sampled_from(found))))
            return [seq for seq in found if low <= seq <= high]
        return data.draw(st.lists(st.sampled_from(found), unique=True, max_size=10))

    def _done(self, seqs: list[int]) -> None:
        for seq in seqs:
            self.rows[seq] = DONE

    @rule(data=st.data(), stale=st.booleans())
    def acknowledge(self, data: st.DataObject, stale: bool) -> None:
        seqs = self._some(data, MARKED)
        more = self._some(data, DONE) if stale else []
        self.outbox.acknowledge(np.array(seqs + more, np.int64))
        self._done(seqs)
        self.delivered += len(seqs)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        seqs = self._some(data, MARKED)
        self.outbox.drop(np.array(seqs, np.int64), "why")
        self._done(seqs)
        self.dropped += len(seqs)

    @rule()
    def reset_all(self) -> None:
        """What a cut does."""
        self.outbox.reset(np.flatnonzero(np.array(self.rows, object) == MARKED))
        self.rows = [WAITING if state == MARKED else state for state in self.rows]

    @rule(times=st.integers(1, FAN))
    def flap(self, times: int) -> None:
        """What a link does that comes and goes while a little arrives."""
        for _ in range(times):
            self._land(1)
            self.poll_all()
            self.reset_all()

    @rule(data=st.data(), stale=st.booleans())
    def reset(self, data: st.DataObject, stale: bool) -> None:
        seqs = self._some(data, MARKED)
        more = self._some(data, DONE) if stale else []
        told = self.told
        self.outbox.reset(np.array(seqs + more, np.int64))
        for seq in seqs:
            self.rows[seq] = WAITING
        assert self.told == told + bool(seqs)

    @precondition(lambda self: self.depth)
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        seqs = self._some(data, MARKED)
        if seqs:
            assert numbers(self.outbox.rows(np.array(seqs, np.int64))) == seqs

    @invariant()
    def the_sums_hold(self) -> None:
        if not hasattr(self, "outbox"):
            return
        outbox = self.outbox
        assert outbox.depth == self.depth
        assert outbox.in_flight == self.rows.count(MARKED)
        assert (outbox.ledger.entered, outbox.ledger.delivered) == (self.entered, self.delivered)
        assert sum(outbox.ledger.dropped.values()) == self.dropped
        assert outbox.ledger.entered == outbox.ledger.delivered + sum(outbox.ledger.dropped.values()) + outbox.depth
        assert outbox.has_waiting or WAITING not in self.rows
        assert outbox.weight >= 64 * self.depth
        if not self.depth:
            assert outbox.weight == 0
            assert list(self.engine.numbers(("outbox", "r"))) == []

    def teardown(self) -> None:
        """Whatever happened: all that waits comes out, in order, and then nothing is left."""
        if not hasattr(self, "outbox"):
            return
        self.outbox.reset(np.flatnonzero(np.array(self.rows, object) == MARKED))
        left = [seq for seq, state in enumerate(self.rows) if state != DONE]
        found: list[int] = []
        while (polled := self.outbox.poll(1000)) is not None:
            found += numbers(polled.batch)
            self.outbox.acknowledge(np.arange(polled.first, polled.first + polled.rows))
        assert found == left
        assert (self.outbox.depth, self.outbox.weight) == (0, 0)


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class RocksOutboxMachine(OutboxMachine):
    """The same on the disk."""

    def new_engine(self) -> Engine:
        self.directory = TemporaryDirectory()
        return RocksEngine(Path(self.directory.name) / "store", front_bytes=SOON_FULL)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            if hasattr(self, "engine"):
                self.engine.close()
                self.directory.cleanup()


TestRocksOutbox = RocksOutboxMachine.TestCase
TestRocksOutbox.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
