"""Random refusals, cuts and pauses: every row ends delivered or dead, once; in order, but for what counts as reordered."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridgehead.bridge.poison import Poison

DELAYS = (1.0, 2.0, 4.0)
MOST = 8
WINDOW = 6
TOPICS = "abc"


class PoisonMachine(RuleBasedStateMachine):
    """A route that sends as the forwarder does, and a remote that answers in the order of sending, as MQTT wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.poison = Poison(DELAYS, MOST)
        self.now = 0.0
        self.topics: list[str] = []  # of each row by its number
        self.waiting: deque[int] = deque()  # not polled
        self.wire: deque[int] = deque()
        self.delivered: list[int] = []
        self.dead: list[int] = []
        self.refusals: dict[int, list[float]] = {}  # of rows that are not done: when
        self.suspected: set[str] = set()  # topics whose last answer was a refusal, with another try to come
        self.probes: dict[str, int] = {}  # the one row of such a topic that may be on the wire
        self.overtook: set[int] = set()  # delivered before an older row of their topic that was refused

    @rule(topics=st.lists(st.sampled_from(TOPICS), min_size=1, max_size=6))
    def land(self, topics: list[str]) -> None:
        self.waiting.extend(range(len(self.topics), len(self.topics) + len(topics)))
        self.topics += topics

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(rows=st.integers(1, WINDOW))
    def send(self, rows: int) -> None:
        rows = min(rows, WINDOW - len(self.wire))
        if rows <= 0:
            return
        due = self.poison.due(self.now, rows).tolist()
        for seq in due:
            self._leaves(seq)
        if due or self.poison.full:
            return
        polled = [self.waiting.popleft() for _ in range(min(rows, len(self.waiting)))]
        topics = pa.array([self.topics[seq] for seq in polled], pa.string())
        leave = self.poison.park(np.array(polled, np.int64), topics) if self.poison.holding else [True] * len(polled)
        for seq, leaves in zip(polled, leave, strict=True):
            if leaves:
                self._leaves(seq)

    def _leaves(self, seq: int) -> None:
        times = self.refusals.get(seq, [])
        if times:
            assert self.now >= times[-1] + DELAYS[len(times) - 1], "a try before its time"
        for older in self._unresolved(seq):
            assert older in self.wire, "nothing leaves while an older one of its topic waits for another try"
        assert seq not in self.wire
        topic = self.topics[seq]
        if topic in self.suspected:
            assert topic not in self.probes, "one at a time"
            self.probes[topic] = seq
        self.wire.append(seq)

    def _unresolved(self, seq: int) -> list[int]:
        """Older rows of the topic that were refused, and are neither delivered nor dead."""
        return [older for older in self.refusals if older < seq and self.topics[older] == self.topics[seq]]

    def _answered(self, seq: int) -> None:
        """The probe of a topic tells whether its rows flow again; until then they leave one at a time."""
        topic = self.topics[seq]
        if self.probes.get(topic) == seq:
            del self.probes[topic]
            self.suspected.discard(topic)

    @precondition(lambda self: self.wire)
    @rule()
    def accept(self) -> None:
        seq = self.wire.popleft()
        self._answered(seq)
        if self._unresolved(seq):  # it waits, or has left again behind this one
            self.overtook.add(seq)
        self.refusals.pop(seq, None)
        self.delivered.append(seq)
        self.poison.delivered(np.array([seq], np.int64))

    @precondition(lambda self: self.wire)
    @rule(reason=st.sampled_from([0x80, 0x83, 0x97, 0x97, 0x97, 0x87, 0x99]))
    def refuse(self, reason: int) -> None:
        seq = self.wire.popleft()
        verdict = self.poison.refused([seq], [reason], [self.topics[seq]], self.now)
        if verdict.suspects:
            self.poison.left_behind(list(self.wire), [self.topics[one] for one in self.wire])
        self._answered(seq)
        times = self.refusals.setdefault(seq, [])
        times.append(self.now)
        assert len(times) <= len(DELAYS) + 1
        if verdict.deaths:
            [death] = verdict.deaths
            assert (death.seq, death.reason, death.attempts) == (seq, reason, len(times))
            del self.refusals[seq]
            self.dead.append(seq)
        else:
            assert reason in (0x80, 0x83, 0x97)
            self.suspected.add(self.topics[seq])

    @precondition(lambda self: self.wire)
    @rule()
    def session_is_lost(self) -> None:
        lost = np.array(self.wire, np.int64)
        topics = [self.topics[seq] for seq in self.wire]
        again = (self.poison.lost(lost, topics) if self.poison.remembers else lost).tolist()
        for seq in again:
            self.refusals.pop(seq, None)
        self.waiting = deque(sorted([*again, *self.waiting]))
        self.wire.clear()
        self.probes.clear()

    @precondition(lambda self: self.wire)
    @rule()
    def oldest_expires(self) -> None:
        seq = self.wire.popleft()
        self.poison.gone(np.array([seq], np.int64))
        self._answered(seq)
        self.refusals.pop(seq, None)
        self.dead.append(seq)

    @invariant()
    def what_waits_is_bounded(self) -> None:
        assert self.poison.held <= MOST + 2 * WINDOW

    @invariant()
    def reordered_is_what_overtook(self) -> None:
        assert self.poison.reordered == len(self.overtook)

    @invariant()
    def order_is_kept_but_for_what_overtook(self) -> None:
        for topic in TOPICS:
            came = [seq for seq in self.delivered if self.topics[seq] == topic and seq not in self.overtook]
            assert came == sorted(came)

    def teardown(self) -> None:
        """The remote takes everything from now on: every row is answered for, once, and nothing is remembered."""
        for _ in range(10_000):
            if len(self.delivered) + len(self.dead) == len(self.topics):
                break
            while self.wire:
                self.accept()
            self.now += 1.0
            self.send(WINDOW)
        assert sorted(self.delivered + self.dead) == list(range(len(self.topics)))
        assert not self.poison.holding
        assert not self.poison.remembers
        assert self.poison.next_due is None


TestPoison = PoisonMachine.TestCase
TestPoison.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
