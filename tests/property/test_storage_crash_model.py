"""Journal and outbox on the disk, killed at any moment: what was written at QoS 1 or 2 and not done is there again."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from bridgehead.columns.batches import Batch
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.segments import FAN, SMALL_ROWS
from making.lives import Lives
from making.rows import numbers, outbox_rows, stored_rows

MUCH = 1 << 30

qos_patterns = st.sampled_from([(1,), (0,), (1, 0), (2, 2, 0, 1), (0, 0, 0, 1)])


class JournalLives(Lives):
    def begin(self) -> None:
        self.log = Log("shared", self.engine)
        self.rows: dict[int, tuple[int, int]] = {}  # by offset: what waits, (number, QoS)
        self.unseen: dict[int, tuple[int, int]] = {}  # appended, not published

    def found_again(self) -> None:
        self.log = Log("shared", self.engine)
        self.rows |= self.unseen
        self.unseen = {}
        self.rows = {offset: row for offset, row in self.rows.items() if row[1]}
        assert self.log.end > self.highest, "offsets never repeat"
        assert self.log.visible == self.log.end

    def _append(self, count: int, qos: tuple[int, ...]) -> None:
        rows = self.payloads(count, qos)
        changes = Changes()
        start = self.log.append(changes, stored_rows(*rows))
        self.engine.write(changes)
        assert start > self.highest
        self.highest = start + count - 1
        self.unseen |= {start + i: (int(str(row["payload"], "ascii")), row["qos"]) for i, row in enumerate(rows)}  # type: ignore[call-overload]

    @rule(count=st.integers(1, 2 * SMALL_ROWS), qos=qos_patterns, times=st.sampled_from([1, 1, FAN]), seen=st.booleans())
    def append(self, count: int, qos: tuple[int, ...], times: int, seen: bool) -> None:
        for _ in range(times):
            self._append(count if times == 1 else 1, qos)
            if seen:
                self.log.publish()
                self.rows |= self.unseen
                self.unseen = {}

    @rule(max_rows=st.integers(1, 300), commit=st.booleans())
    def run(self, max_rows: int, commit: bool) -> None:
        """What a pipeline does: plan, read, and maybe commit."""
        start = self.log.consumed
        end = self.log.plan(start, max_rows, MUCH)
        found = {first + i: n for first, batch in self.log.read(start, end) for i, n in enumerate(numbers(batch))}
        assert found == {offset: row[0] for offset, row in self.rows.items() if offset < end}
        assert len(found) <= max_rows
        assert end > start or not self.rows, "whatever waits is reached"
        if commit and end > start:
            changes = Changes()
            self.log.consume(changes, end)
            # Rows of QoS 0 alone make no outbox rows on the disk: then it need not know, they are not found again anyway.
            landing = outbox_rows({"qos": max([0, *(self.rows[offset][1] for offset in found)])})
            changes.puts.append((("outbox", "any"), end, landing))
            self.engine.write(changes)
            self.rows = {offset: row for offset, row in self.rows.items() if offset >= end}

    @rule()
    def trim(self) -> None:
        changes = Changes()
        self.log.trim(changes, self.log.consumed)
        self.engine.write(changes)

    @invariant()
    def the_sums_hold(self) -> None:
        if hasattr(self, "log"):
            assert self.log.waiting == len(self.rows) + len(self.unseen)
            assert self.log.waiting_weight >= 0
            if not self.rows and not self.unseen:
                assert self.log.consumed == self.log.end


class OutboxLives(Lives):
    def begin(self) -> None:
        self.outbox = Outbox("r", self.engine, 100_000, MUCH)
        self.rows: dict[int, tuple[int, int]] = {}  # by sequence number: what is here, (number, QoS)
        self.marked: set[int] = set()

    def found_again(self) -> None:
        self.outbox = Outbox("r", self.engine, 100_000, MUCH)
        self.rows = {seq: row for seq, row in self.rows.items() if row[1]}
        self.marked = set()
        assert self.outbox.end > self.highest, "sequence numbers never repeat"

    @rule(count=st.integers(1, 2 * SMALL_ROWS), qos=qos_patterns, times=st.sampled_from([1, 1, FAN]))
    def land(self, count: int, qos: tuple[int, ...], times: int) -> None:
        for _ in range(times):
            rows = self.payloads(count if times == 1 else 1, qos)
            start = self.outbox.end
            changes = Changes()
            assert self.outbox.land(changes, outbox_rows(*rows)) == len(rows)
            self.engine.write(changes)
            self.outbox.landed()
            self.highest = self.outbox.end - 1
            self.rows |= {start + i: (int(str(row["payload"], "ascii")), row["qos"]) for i, row in enumerate(rows)}  # type: ignore[call-overload]

    @rule(max_rows=st.integers(1, 200), times=st.integers(1, 4))
    def poll(self, max_rows: int, times: int) -> None:
        for _ in range(times):
            waiting = sorted(self.rows.keys() - self.marked)
            polled = self.outbox.poll(max_rows)
            if not waiting:
                assert polled is None
                return
            assert polled is not None
            seqs = list(range(polled.first, polled.first + polled.rows))
            assert seqs == waiting[: len(seqs)]
            self._is(polled.batch, seqs)
            self.marked |= set(seqs)

    def _is(self, batch: Batch, seqs: list[int]) -> None:
        assert numbers(batch) == [self.rows[seq][0] for seq in seqs]
        assert batch.column("qos").to_pylist() == [self.rows[seq][1] for seq in seqs]

    @rule(data=st.data(), how=st.sampled_from(["some", "all", "every other"]), dropped=st.booleans())
    def leave(self, data: st.DataObject, how: str, dropped: bool) -> None:
        found = sorted(self.marked)
        if not found:
            return
        if how == "some":
            found = data.draw(st.lists(st.sampled_from(found), unique=True, max_size=20))
        elif how == "every other":
            found = found[::2]
        if dropped:
            self.outbox.drop(np.array(found, np.int64), "why")
        else:
            self.outbox.acknowledge(np.array(found, np.int64))
        self.marked -= set(found)
        for seq in found:
            del self.rows[seq]

    @rule()
    def reset(self) -> None:
        self.outbox.reset(np.array(sorted(self.marked), np.int64))
        self.marked = set()

    @invariant()
    def the_sums_hold(self) -> None:
        if hasattr(self, "outbox"):
            outbox = self.outbox
            assert (outbox.depth, outbox.in_flight) == (len(self.rows), len(self.marked))
            assert outbox.entered == outbox.delivered + sum(outbox.dropped.values()) + outbox.depth
            assert outbox.has_waiting or self.rows.keys() == self.marked
            if not self.rows:
                assert outbox.weight == 0
                assert list(self.engine.numbers(("outbox", "r"))) == []
                assert list(self.engine.notes(("done", "r"))) == []


TestJournalLives = JournalLives.TestCase
TestJournalLives.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestOutboxLives = OutboxLives.TestCase
TestOutboxLives.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
