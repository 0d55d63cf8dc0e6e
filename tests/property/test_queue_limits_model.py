"""A queue with a limit against a plain list: what is kept, what is dropped, and that nothing is lost between the two.

The outbox, its forwarder with tier 2 and the wire, under landings of any size, outages and restarts of the storage.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import QUEUE_FULL, Outbox, Strategy
from bridgehead.storage.rocks import RocksEngine
from making.rows import numbers, outbox_rows

MUCH = 1 << 40


class QueueMachine(RuleBasedStateMachine):
    """The model: ``queue`` holds the numbers of the messages that are kept, in order; some of them are on the wire."""

    def new_engine(self) -> Engine:
        return MemoryEngine()

    @initialize(
        strategy=st.sampled_from(["discard", "discard-oldest", "refuse"]),
        limit=st.sampled_from([1, 2, 7, 100, 1000]),
        tier2=st.sampled_from([1, 5, 64, 10_000]),
    )
    def start(self, strategy: Strategy, limit: int, tier2: int) -> None:
        self.strategy, self.limit, self.tier2 = strategy, limit, tier2
        self.engine = self.new_engine()
        self.outbox = Outbox("r", self.engine, limit, MUCH, strategy=strategy)
        self.forwarder = Forwarder(0, self.outbox, tier2)
        self.came = self.delivered = self.dropped = 0
        self.queue: list[int] = []
        self.wire: dict[int, int] = {}  # sequence number on the wire: which message it is

    def _came(self, count: int) -> list[int]:
        self.came += count
        return list(range(self.came - count, self.came))

    def _enter(self, new: list[int]) -> None:
        """What the limit does to a landing."""
        wire = set(self.wire.values())
        kept = self.queue + new
        over = max(len(kept) - self.limit, 0)
        if self.strategy == "discard":
            gone = new[max(len(new) - over, 0) :]
        elif self.strategy == "discard-oldest":
            gone = [number for number in kept if number not in wire][:over]
        else:
            gone = []
        self.queue = [number for number in kept if number not in set(gone)]
        self.dropped += len(gone)

    def _land(self, *counts: int) -> None:
        changes = Changes()
        for count in counts:
            new = self._came(count)
            qos = [number % 3 for number in new]
            self.outbox.land(changes, outbox_rows(*({"payload": b"%d" % n, "qos": q} for n, q in zip(new, qos, strict=True))))
            self._enter(new)
        self.engine.write(changes)

    @rule(counts=st.lists(st.integers(1, 150), min_size=1, max_size=3), synced=st.booleans())
    def land(self, counts: list[int], synced: bool) -> None:
        """One write of one or more batches; when it is not safe yet, nobody may poll its rows."""
        self._land(*counts)
        if synced:
            self.outbox.landed()

    @rule(times=st.integers(1, 80))
    def land_one_by_one(self, times: int) -> None:
        for _ in range(times):
            self._land(1)
            self.outbox.landed()
            self.forwarder.hold()

    @rule()
    def outage(self) -> None:
        """The connection is gone, the session too: what was on the wire waits again, and tier 2 fills."""
        self.forwarder.return_all(np.array(list(self.wire), np.int64))
        self.wire = {}
        self.forwarder.hold()

    @rule(rows=st.integers(1, 60))
    def send(self, rows: int) -> None:
        polled = self.forwarder.next(rows, 0.0)
        if polled is not None:
            sent = numbers(polled.batch)
            waiting = [number for number in self.queue if number not in self.wire.values()]
            assert sent == waiting[: len(sent)], "the oldest that is kept goes next"
            self.wire.update(zip(range(polled.first, polled.first + polled.rows), sent, strict=True))

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        if self.wire:
            seqs = data.draw(st.lists(st.sampled_from(sorted(self.wire)), unique=True))
            self.outbox.acknowledge(np.array(seqs, np.int64))
            done = {self.wire.pop(seq) for seq in seqs}
            self.queue = [number for number in self.queue if number not in done]
            self.delivered += len(done)

    @invariant()
    def the_sums_hold(self) -> None:
        if hasattr(self, "outbox"):
            outbox = self.outbox
            assert outbox.depth == len(self.queue)
            assert outbox.in_flight == len(self.wire) + self.forwarder.tier2
            assert outbox.ledger.dropped.get(QUEUE_FULL, 0) == self.dropped
            assert outbox.ledger.delivered == self.delivered
            assert outbox.ledger.entered == outbox.ledger.delivered + self.dropped + outbox.depth
            assert self.strategy == "refuse" or outbox.depth <= self.limit

    def teardown(self) -> None:
        """Whatever happened: exactly what the model has kept is delivered, in order."""
        if not hasattr(self, "outbox"):
            return
        self.outage()
        self.outbox.landed()
        found: list[int] = []
        while (polled := self.forwarder.next(1000, 0.0)) is not None:
            found += numbers(polled.batch)
            self.outbox.acknowledge(np.arange(polled.first, polled.first + polled.rows))
        assert found == self.queue
        assert (self.outbox.depth, self.outbox.weight) == (0, 0)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


class RocksQueueMachine(QueueMachine):
    """The same on the disk, where the node may also stop and start again."""

    def new_engine(self) -> Engine:
        self.directory = TemporaryDirectory()
        return RocksEngine(Path(self.directory.name) / "store")

    @rule()
    def start_again(self) -> None:
        """What was dropped does not come back; rows of QoS 0 are gone, and everything else waits."""
        if not hasattr(self, "outbox"):
            return
        self.engine.close()
        self.engine = RocksEngine(Path(self.directory.name) / "store")
        self.outbox = Outbox("r", self.engine, self.limit, MUCH, strategy=self.strategy)
        self.forwarder = Forwarder(0, self.outbox, self.tier2)
        self.queue = [number for number in self.queue if number % 3]
        self.wire = {}
        self.delivered = self.dropped = 0

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            if hasattr(self, "engine"):
                self.engine.close()
                self.directory.cleanup()


TestRocksQueue = RocksQueueMachine.TestCase
TestRocksQueue.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
