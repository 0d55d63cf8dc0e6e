"""The journal's log against a list of rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehead.columns.batches import weight
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.segments import FAN, SMALL_ROWS
from making.lives import SOON_FULL
from making.rows import numbers, stored_rows

MUCH = 1 << 30


class LogMachine(RuleBasedStateMachine):
    def new_engine(self) -> Engine:
        return MemoryEngine()

    @initialize(max_bytes=st.sampled_from([3_000, 100_000]))
    def start(self, max_bytes: int) -> None:
        self.engine = self.new_engine()
        self.journal = Journal(self.engine, max_bytes)
        self.log = self.journal.log("shared")
        self.routes: list[str] = []  # of each row by its offset
        self.visible = self.consumed = self.released = 0
        self.told = 0
        self.log.on_visible = self._told

    def _told(self) -> None:
        self.told += 1

    def _append(self, count: int, route: str) -> None:
        start = len(self.routes)
        changes = Changes()
        rows = [{"payload": str(start + i).encode(), "route": route, "client_id": f"c{count}"} for i in range(count)]
        assert self.log.append(changes, stored_rows(*rows)) == start
        self.engine.write(changes)
        self.routes += [route] * count

    def _publish(self) -> None:
        told = self.told
        self.log.publish()
        assert self.told == told + (self.visible < len(self.routes))
        self.visible = len(self.routes)

    @rule(count=st.integers(1, 2 * SMALL_ROWS), route=st.sampled_from("ab"), publish=st.booleans())
    def append(self, count: int, route: str, publish: bool) -> None:
        self._append(count, route)
        if publish:
            self._publish()

    @rule(count=st.integers(1, 3), times=st.integers(1, 2 * FAN), route=st.sampled_from("ab"))
    def append_many_small_ones(self, count: int, times: int, route: str) -> None:
        for _ in range(times):
            self._append(count, route)
            self._publish()

    @rule()
    def publish(self) -> None:
        self._publish()

    @rule(data=st.data(), max_rows=st.integers(1, 300), max_bytes=st.sampled_from([1, 2_000, MUCH]))
    def plan_and_read(self, data: st.DataObject, max_rows: int, max_bytes: int) -> None:
        start = data.draw(st.integers(self.consumed, max(self.visible, self.consumed)))
        end = self.log.plan(start, max_rows, max_bytes)
        assert start <= end <= min(self.visible, start + max_rows)
        assert (end > start) == (self.visible > start), "one row at least, if there is one"
        if max_bytes == MUCH:
            assert end == min(self.visible, start + max_rows), "no less than may be"
        pieces = self.log.read(start, end)
        assert [number for _, batch in pieces for number in numbers(batch)] == list(range(start, end))
        routes = [route for _, batch in pieces for route in batch.column("route").to_pylist()]
        assert routes == self.routes[start:end]
        for first, batch in pieces:
            assert numbers(batch)[0] == first

    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.consumed, self.visible))
        changes = Changes()
        self.log.consume(changes, end)
        self.engine.write(changes)
        self.consumed = end
        assert self.engine.state(("consumed", "shared")) == end

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        """The reader lets go: what it was not yet given must stay, whatever it says."""
        end = data.draw(st.integers(0, self.visible))
        changes = Changes()
        self.log.trim(changes, end)
        self.engine.write(changes)
        self.released = max(self.released, min(end, self.consumed))
        kept = [number for _, batch in self.log.read(0, len(self.routes)) for number in numbers(batch)]
        assert kept == list(range(kept[0] if kept else len(self.routes), len(self.routes)))
        assert not kept or kept[0] <= self.released

    @invariant()
    def the_sums_hold(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.end, log.visible, log.consumed) == (len(self.routes), self.visible, self.consumed)
        assert log.end == log.consumed + log.waiting
        held = self.log.read(0, len(self.routes))
        assert log.weight == sum(weight(batch) for _, batch in held)
        waiting = sum(weight(batch) for first, batch in held if first + batch.num_rows > self.consumed)
        assert log.waiting_weight == waiting
        assert self.journal.full == (waiting >= self.journal.max_bytes)
        if self.consumed == len(self.routes):
            assert not self.journal.full

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        self._publish()
        changes = Changes()
        self.log.consume(changes, self.visible)
        self.log.trim(changes, self.visible)
        self.engine.write(changes)
        assert (self.log.weight, self.log.waiting_weight) == (0, 0)
        assert list(self.engine.numbers(("journal", "shared"))) == []


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


class RocksLogMachine(LogMachine):
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


TestRocksLog = RocksLogMachine.TestCase
TestRocksLog.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
