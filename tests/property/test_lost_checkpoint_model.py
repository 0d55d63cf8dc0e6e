"""A query that counts by windows, killed and robbed of its checkpoint at any moment: each window comes out once, and whole.

The model plays Spark: it keeps a checkpoint (what it remembers, its watermark, the batch it has begun), runs a batch again that
it has not noted as done, and runs a batch without rows when its watermark has moved.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.lastbatch import BatchName
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.retention import Retention
from making.crashing import Lives
from making.rows import stored_rows

ROUTE = "b.push.1"
WIDTH, DELAY = 10, 5
MUCH = 1 << 60


@dataclass
class Checkpoint:
    """What Spark writes down."""

    query: str
    position: int
    number: int = 0
    windows: Counter[int] = field(default_factory=Counter)
    watermark: int = 0  # of the batch that comes next
    begun: tuple[int, int] | None = None  # the range of that batch, if it was planned before
    moved: bool = False  # whether the watermark has, since a batch used it


class WindowLives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.home = TemporaryDirectory()
        self.lives = Lives(Path(self.home.name))
        self.engine = self.lives.start()
        self.queries = 0
        self.latest_time = 0
        self.sent: Counter[int] = Counter()
        self._open()
        self._new_query()

    def _open(self) -> None:
        self.journal = Journal(self.engine, MUCH, Retention(max_bytes=MUCH))
        self.log = self.journal.log(ROUTE)
        self.outbox = Outbox(ROUTE, self.engine, MUCH, MUCH, Ledger(ROUTE, self.engine))
        self.gate = Gate(self.engine, self.journal, {ROUTE: self.outbox}, transformed={ROUTE})
        self.epoch = self.gate.new_epoch()

    def _new_query(self) -> None:
        self.queries += 1
        self.gate.begin(self.epoch, ROUTE)
        self.checkpoint = Checkpoint(f"query {self.queries}", self.gate.begin(self.epoch, ROUTE, anew=True))

    @rule(steps=st.lists(st.integers(-DELAY, 2 * WIDTH), min_size=1, max_size=20))
    def append(self, steps: list[int]) -> None:
        """Event times rise, within the delay: no row is ever late, however the batches are cut."""
        times = []
        for step in steps:
            time = max(self.latest_time + step, self.latest_time - DELAY, 0)
            self.latest_time = max(self.latest_time, time)
            times.append(time)
        self.sent.update(time // WIDTH for time in times)
        changes = Changes()
        self.log.append(changes, stored_rows(*({"payload": str(time).encode(), "route": ROUTE} for time in times)))
        self.engine.write(changes)
        self.log.publish()

    @rule(max_rows=st.integers(1, 30), dies=st.sampled_from(["", "", "", "before the commit", "behind the commit"]))
    def batch(self, max_rows: int, dies: str) -> None:
        self._batch(max_rows, dies)

    def _batch(self, max_rows: int, dies: str = "") -> bool:
        """Whether there was anything to do."""
        noted = self.checkpoint
        if noted.begun is None:
            end = noted.position
            if not self.gate.pauses(self.epoch, ROUTE, noted.position) or not noted.moved:  # else Spark asks again
                end = self.gate.latest(self.epoch, ROUTE, noted.position, max_rows, MUCH)
            if end == noted.position and not noted.moved:
                return False
            noted.begun = noted.position, end
        after = copy.deepcopy(noted)
        start, end = noted.begun
        if end > start:
            self.gate.plan(self.epoch, ROUTE, start, end)
        times = [int(each) for _, rows in self.log.read(start, end) for each in rows.column("payload").to_pylist()]
        after.windows.update(time // WIDTH for time in times)
        closed = sorted(window for window in after.windows if (window + 1) * WIDTH <= after.watermark)
        made = [b"%d:%d" % (window, after.windows.pop(window)) for window in closed]
        watermark = max([after.watermark, *(time - DELAY for time in times)])
        if dies != "before the commit":
            self._commit(after, made)
        if dies:
            self._new_driver()
            return True
        after.moved, after.watermark = watermark > after.watermark, watermark
        after.position, after.begun, after.number = end, None, after.number + 1
        self.checkpoint = after
        self.gate.release(self.epoch, ROUTE, end)
        return True

    def _commit(self, after: Checkpoint, made: list[bytes]) -> None:
        planned = self.gate.planned(self.epoch, ROUTE)
        parts = []
        if made:
            staged = Staged.of([_rows(made)], [ROUTE])
            self.gate.stage(self.epoch, ROUTE, "part", staged)
            parts = [Part("part", 0, staged.rows, staged.checksum)]
        self.gate.commit(self.epoch, ROUTE, planned.start, planned.end, parts, BatchName(after.query, after.number))

    def _new_driver(self) -> None:
        """It goes on from what is noted."""
        self.epoch = self.gate.new_epoch()
        self.gate.begin(self.epoch, ROUTE)

    @rule()
    def the_driver_dies(self) -> None:
        self._new_driver()

    @rule()
    def the_node_dies(self) -> None:
        self.engine = self.lives.crash()
        self._open()
        self.gate.begin(self.epoch, ROUTE)

    @rule()
    def the_checkpoint_is_lost(self) -> None:
        self.epoch = self.gate.new_epoch()
        self._new_query()
        assert self.gate.stats(ROUTE).state_lost is None

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        try:
            last = (self.latest_time + DELAY) // WIDTH + 1
            self.latest_time = last * WIDTH + DELAY
            self.append([0])
            while self._batch(1000):
                pass
            expected = sorted(b"%d:%d" % (window, rows) for window, rows in self.sent.items() if window < last)
            assert sorted(self._landed()) == expected
        finally:
            self.lives.close()
            self.home.cleanup()

    def _landed(self) -> list[bytes]:
        self.outbox.landed()
        taken: list[bytes] = []
        while (polled := self.outbox.poll(1000)) is not None:
            taken += polled.batch.column("payload").to_pylist()
        return taken


def _rows(payloads: list[bytes]) -> Batch:
    return apply(stored_rows(*({"payload": payload, "route": ROUTE} for payload in payloads)), RouteRules(ROUTE))


TestWindowLives = WindowLives.TestCase
TestWindowLives.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


def test_the_last_committed_batch_comes_again_in_one_whatever_the_limit_is_now() -> None:
    machine = WindowLives()
    machine.begin()
    machine.append([0, 0, 0, 0, 15, 0])
    machine.batch(6, "")
    machine.the_checkpoint_is_lost()
    machine.batch(5, "")
    machine.teardown()
