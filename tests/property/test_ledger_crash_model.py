"""The ledger of two routes, killed at any moment: both sums hold, alive and after every restart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehead.columns.batches import constant_label
from bridgehead.pipeline.door import Arrived, Door, DoorRule, timestamps
from bridgehead.pipeline.doorways import Doorways
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.outbox import Outbox, Strategy
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.lives import SOON_FULL
from making.rows import wire_rows

MUCH = 1 << 30
ROUTES: dict[str, Strategy] = {"a": "discard", "b": "discard-oldest"}
LIMIT = 60
"""Small enough that a backlog runs into it."""

qos_patterns = st.sampled_from([(1,), (0,), (1, 0), (2, 2, 0, 1), (0, 0, 0, 1)])


@dataclass(frozen=True)
class Leading:
    doors: tuple[Door, ...]


class LedgerLives(RuleBasedStateMachine):
    """Doors, journal, inline engine and outboxes on a directory that outlives them."""

    @initialize()
    def first_life(self) -> None:
        self.home = TemporaryDirectory()
        self.lives = 0
        self.received: Counter[str] = Counter()  # rows that are to survive, by route
        self.delivered: Counter[str] = Counter()
        self.open(Path(self.home.name) / "0")

    def open(self, directory: Path) -> None:
        self.directory = directory
        self.engine = RocksEngine(directory, sync=False, front_bytes=SOON_FULL)
        self.journal = Journal(self.engine, MUCH)
        self.ledgers = {route: Ledger(route, self.engine) for route in ROUTES}
        self.outboxes = {
            route: Outbox(route, self.engine, LIMIT, MUCH, self.ledgers[route], strategy) for route, strategy in ROUTES.items()
        }
        self.log = self.journal.log(SHARED)
        self.doors = {
            route: Door(DoorRule(route=route, bridge="x", filters=("#",)), self.log, self.ledgers[route]) for route in ROUTES
        }
        gate = Gate(self.engine, self.journal, self.outboxes)
        self.inline = InlineEngine(self.engine, gate.landing, self.log, [RouteRules(route=route) for route in ROUTES])
        self.marked: dict[str, list[int]] = {route: [] for route in ROUTES}
        for ledger in self.ledgers.values():
            ledger.found_in_journal(self.journal.waiting_of(ledger.route))

    @rule(kill=st.booleans())
    def next_life(self, kill: bool) -> None:
        self.lives += 1
        following = Path(self.home.name) / str(self.lives)
        if not kill:
            self.engine.close()
        copy_as_left(self.directory, following)
        self.engine.close()
        self.open(following)
        for route, ledger in self.ledgers.items():
            assert ledger.received == self.received[route], "what is kept goes on from where it was"
            assert ledger.delivered == self.delivered[route]
            assert not {"damaged"} & {*ledger.dropped, *ledger.dropped_before}

    @rule(route=st.sampled_from(sorted(ROUTES)), count=st.integers(1, 40), qos=qos_patterns, hops=st.booleans())
    def arrive(self, route: str, count: int, qos: tuple[int, ...], hops: bool) -> None:
        looped = [{"key": "hmq-bridge-hop-count", "value": "1"}] if hops else []
        each = [{"qos": qos[n % len(qos)], "user_properties": [] if n % 3 else looped} for n in range(count)]
        rows = wire_rows(*each)
        changes = Changes()
        admitted = self.doors[route].admit(changes, rows, constant_label("c", count), timestamps(0, count))
        self.engine.write(changes)
        self.log.publish()
        entering = [qos[n % len(qos)] for n in range(count) if not (hops and n % 3 == 0)]
        assert admitted == len(entering)
        self.received[route] += sum(1 for each in entering if each)

    @rule(count=st.integers(1, 40), qos=qos_patterns)
    def arrive_mixed(self, count: int, qos: tuple[int, ...]) -> None:
        """A turn with rows of both routes, in one append."""
        rows = wire_rows(*({"qos": qos[n % len(qos)]} for n in range(count)))
        plans = [Leading((self.doors[route],)) for route in sorted(ROUTES)]
        numbers = (np.arange(count) // 3 % len(plans)).astype(np.int32)
        changes = Changes()
        Doorways().admit(changes, Arrived(rows, constant_label("c", count), timestamps(0, count)), plans, numbers)
        self.engine.write(changes)
        self.log.publish()
        for n, number in enumerate(numbers.tolist()):
            self.received[sorted(ROUTES)[number]] += qos[n % len(qos)] > 0

    @rule()
    def run(self) -> None:
        self.inline.run()

    @rule(route=st.sampled_from(sorted(ROUTES)), max_rows=st.integers(1, 50))
    def poll(self, route: str, max_rows: int) -> None:
        polled = self.outboxes[route].poll(max_rows)
        if polled is not None:
            self.marked[route] += range(polled.first, polled.first + polled.rows)

    @rule(route=st.sampled_from(sorted(ROUTES)), every=st.integers(1, 3), drop=st.booleans())
    def leave(self, route: str, every: int, drop: bool) -> None:
        outbox = self.outboxes[route]
        seqs = np.array(self.marked[route][::every], np.int64)
        if not len(seqs):
            return
        safe = int(np.count_nonzero(outbox.rows(np.sort(seqs)).column("qos").to_numpy()))
        if drop:
            outbox.drop(seqs, "expired")
        else:
            outbox.acknowledge(seqs)
            self.delivered[route] += safe
        self.marked[route] = [seq for seq in self.marked[route] if seq not in set(seqs.tolist())]

    @invariant()
    def both_sums_hold(self) -> None:
        if not hasattr(self, "engine"):
            return
        assert sum(self.log.waiting_of.values()) == self.log.waiting, "by route and by offsets"
        for route, ledger in self.ledgers.items():
            waiting = self.journal.waiting_of(route)
            assert ledger.received == ledger.consumed + sum(ledger.dropped_before.values()) + waiting
            assert ledger.entered == ledger.delivered + sum(ledger.dropped.values()) + self.outboxes[route].depth
            assert ledger.consumed == ledger.entered
            assert 0 <= ledger.kept.journal_waiting <= waiting
            assert 0 <= ledger.kept.outbox_waiting <= self.outboxes[route].depth

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.home.cleanup()


TestLedgerLives = LedgerLives.TestCase
TestLedgerLives.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
