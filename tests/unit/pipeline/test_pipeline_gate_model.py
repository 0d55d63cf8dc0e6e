"""Whatever drivers, tasks and readers do, in any order: each row lands once, in order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bridgehead.errors import RefusedError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from spark.host import stored_rows

ROUTE = "route"


class GateMachine(RuleBasedStateMachine):
    """The model: the list of payloads appended. Landed must always be its first ``consumed`` elements."""

    drivers = Bundle("drivers")  # epochs, current or over
    tasks = Bundle("tasks")  # (epoch, start, end, parts) staged and not reported yet

    def __init__(self) -> None:
        super().__init__()
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, 1 << 60)
        self.log = self.journal.log(SHARED)
        self.outbox = Outbox(ROUTE, self.engine, 1 << 60, 1 << 60)
        self.gate = Gate(self.engine, self.journal, {ROUTE: self.outbox})
        self.appended: list[bytes] = []
        self.landed: list[bytes] = []
        self.names = 0

    @rule(rows=st.integers(1, 5))
    def append(self, rows: int) -> None:
        payloads = [str(len(self.appended) + i).encode() for i in range(rows)]
        changes = Changes()
        self.log.append(changes, stored_rows(payloads, ["t"], [ROUTE]))
        self.engine.write(changes)
        self.log.publish()
        self.appended += payloads

    @rule(target=drivers)
    def start_a_driver(self) -> int:
        return self.gate.new_epoch()

    @rule(epoch=drivers, rows=st.integers(1, 8))
    def plan(self, epoch: int, rows: int) -> None:
        try:
            start = self.gate.begin(epoch, SHARED)
            end = self.gate.latest(epoch, SHARED, start, rows, 1 << 30)
            self.gate.plan(epoch, SHARED, start, end)
        except RefusedError:
            assert epoch != self.gate.epoch

    @rule(target=tasks, epoch=drivers, start=st.integers(0, 20), rows=st.integers(0, 8))
    def stage(self, epoch: int, start: int, rows: int) -> tuple[int, int, int, list[Part]]:
        """Any task, of the planned batch or a belated one of another."""
        end = min(start + rows, self.log.visible)
        start = min(start, end)
        self.names += 1
        parts = []
        try:
            pieces = self.gate.read(epoch, self.log.incarnation, SHARED, start, end)
            if pieces and sum(piece.num_rows for _, piece in pieces) == end - start:
                staged = Staged.of([apply(piece, RouteRules(ROUTE)) for _, piece in pieces], [ROUTE] * len(pieces))
                self.gate.stage(epoch, SHARED, str(self.names), staged)
                parts = [Part(str(self.names), start, staged.rows, staged.checksum)]
            else:
                end = start  # trimmed: such a task fails
        except RefusedError:
            assert epoch != self.gate.epoch
            end = start
        return epoch, start, end, parts

    @rule(task=consumes(tasks))
    def finish(self, task: tuple[int, int, int, list[Part]]) -> None:
        epoch, start, end, parts = task
        if end > start:
            try:
                self.gate.finish(epoch, SHARED, start, end, parts)
            except RefusedError:
                assert epoch != self.gate.epoch

    @rule(epoch=drivers, start=st.integers(0, 20), rows=st.integers(0, 8))
    def commit_finished(self, epoch: int, start: int, rows: int) -> None:
        self.try_to_commit(lambda: self.gate.commit_finished(epoch, SHARED, start, start + rows))

    @rule(task=tasks, split=st.booleans())
    def commit_by_manifest(self, task: tuple[int, int, int, list[Part]], split: bool) -> None:
        epoch, start, end, parts = task
        if end > start:
            self.try_to_commit(lambda: self.gate.commit(epoch, SHARED, start, end, parts))

    @rule(epoch=drivers, end=st.integers(0, 30))
    def release(self, epoch: int, end: int) -> None:
        try:
            self.gate.release(epoch, SHARED, end)
        except RefusedError:
            assert epoch != self.gate.epoch

    def try_to_commit(self, commit: object) -> None:
        before = self.log.consumed
        try:
            moved = commit()  # type: ignore[operator]
        except RefusedError:
            moved = False
        assert moved == (self.log.consumed > before)
        while (polled := self.outbox.poll(1000)) is not None:
            self.landed += polled.batch.column("payload").to_pylist()

    @invariant()
    def every_consumed_row_has_landed_once_and_in_order(self) -> None:
        assert self.landed == self.appended[: self.log.consumed]

    @invariant()
    def rows_that_are_not_consumed_can_still_be_read(self) -> None:
        rows = sum(piece.num_rows for _, piece in self.log.read(self.log.consumed, self.log.end))
        assert rows == self.log.end - self.log.consumed


GateMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWhateverHappensRowsLandOnceInOrder = GateMachine.TestCase
