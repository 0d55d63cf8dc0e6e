"""A log with retention against a list of rows: appended, consumed, let go, grown old, killed; on the disk and in memory."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from bridgehead.storage import retention as retention_module
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal
from bridgehead.storage.retention import Retention
from bridgehead.storage.segments import FAN, SMALL_ROWS
from making.lives import Lives
from making.rows import numbers, stored_rows

HOUR = 3_600_000_000
MUCH = 1 << 30

qos_patterns = st.sampled_from([(1,), (0,), (1, 0), (2, 2, 0, 1)])


class RetainedLives(Lives):
    """What is there is always the newest part of what was written, no less than the bounds leave, and no more."""

    @initialize(hours=st.sampled_from([0, 2]), max_bytes=st.sampled_from([0, 5_000, 50_000]))
    def first_life(self, hours: int = 0, max_bytes: int = 0) -> None:
        self.bounds = (hours, max_bytes)
        self.now = 1_000 * HOUR
        self.clock, retention_module.now_us = retention_module.now_us, lambda: self.now
        super().first_life()

    def begin(self) -> None:
        self.rows: dict[int, tuple[int, int, int]] = {}  # by offset, all that may be found: (number, QoS, when it came)
        self.consumed = self.released = 0  # below this: outbox rows; asked for no more
        self._new_log()

    def _new_log(self) -> None:
        self.journal = Journal(self.engine, MUCH, Retention(*self.bounds))
        self.log = self.journal.log("shared")

    def found_again(self) -> None:
        self.rows = {offset: row for offset, row in self.rows.items() if row[1]}
        there = self._there()
        self._new_log()
        assert self.log.end > self.highest, "offsets never repeat"
        assert self._there() == there, "what was there and of QoS 1 or 2 is there"
        between = sorted((self.consumed, self.log.consumed))
        assert not any(between[0] <= offset < between[1] for offset in self.rows), "nothing is consumed twice or left out"
        self.consumed = self.log.consumed

    def _there(self) -> dict[int, int]:
        found = {first + i: n for first, batch in self.log.read(0, self.log.end) for i, n in enumerate(numbers(batch))}
        return {offset: number for offset, number in found.items() if offset in self.rows}

    @rule(
        count=st.integers(1, 2 * SMALL_ROWS),
        qos=qos_patterns,
        times=st.sampled_from([1, 1, FAN]),
        through=st.booleans(),
        pause=st.sampled_from([0, 0, HOUR // 2]),
    )
    def append(self, count: int, qos: tuple[int, ...], times: int, through: bool, pause: int) -> None:
        for _ in range(times):
            rows = [{**row, "received_at": self.now} for row in self.payloads(count if times == 1 else 1, qos)]
            batch, start, changes = stored_rows(*rows), self.log.end, Changes()
            if through and self.log.empty:
                self.log.pass_through(changes, batch)
                self.consumed = self.released = self.log.end
            else:
                self.log.append(changes, batch)
            self.engine.write(changes)
            self.log.publish()
            self.highest = self.log.end - 1
            given = zip(numbers(batch), batch.column("qos").to_pylist(), strict=True)
            self.rows |= {start + i: (number, level, self.now) for i, (number, level) in enumerate(given)}
        self.now += pause

    @rule(max_rows=st.integers(1, 300))
    def consume(self, max_rows: int) -> None:
        end = self.log.plan(self.consumed, max_rows, MUCH)
        changes = Changes(state={("anything",): 1})  # in a node: outbox rows
        self.log.consume(changes, end)
        self.engine.write(changes)
        self.consumed = end

    @rule(part=st.floats(0, 1))
    def release(self, part: float) -> None:
        end = self.released + int((self.consumed - self.released) * part)
        changes = Changes(state={("anything",): 1})
        self.log.trim(changes, end)
        self.engine.write(changes)
        self.released = max(self.released, end)

    @rule(hours=st.sampled_from([0, 1, 2]))
    def sweep(self, hours: int) -> None:
        self.now += hours * HOUR
        changes = Changes()
        self.journal.retention.sweep(changes)
        self.engine.write(changes)

    @invariant()
    def what_may_be_read_is_there_within_the_bounds(self) -> None:
        if not hasattr(self, "log"):
            return
        there = self._there()
        first = self.log.trimmed
        assert not any(self.released <= offset < first for offset in self.rows), "what its reader may ask for stays"
        let_go = [row for offset, row in self.rows.items() if offset < first]
        self.rows = {offset: row for offset, row in self.rows.items() if offset >= first}
        assert there == {offset: row[0] for offset, row in self.rows.items()}, "the newest part, whole"
        assert self.log.waiting == sum(offset >= self.consumed for offset in self.rows)
        assert self.log.retained == sum(offset < self.consumed for offset in self.rows)
        hours, max_bytes = self.bounds
        if hours and not max_bytes:
            assert all(row[2] < self.now - hours * HOUR for row in let_go), "what is young enough stays"
        if max_bytes and self.log.spare is not None:
            assert self.log.retained_weight <= max_bytes

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "clock"):
            retention_module.now_us = self.clock


TestRetainedLives = RetainedLives.TestCase
TestRetainedLives.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
