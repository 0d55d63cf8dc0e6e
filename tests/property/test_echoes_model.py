"""The echo window against a list: every entry cancels one echo, the oldest first, and none that has grown old."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bridgehead.bridge.echoes import EchoWindow
from bridgehead.columns.batches import Batch
from making.rows import outbox_rows

SECONDS, ENTRIES = 10.0, 1000  # more entries than a run sends: what a full window forgets has its own test
PAIR = st.tuples(st.sampled_from(["in/a", "in/b", "out"]), st.sampled_from([b"", b"1", b"2"]))
PAIRS = st.lists(PAIR, min_size=1, max_size=5)


def rows(pairs: list[tuple[str, bytes]]) -> Batch:
    return outbox_rows(*({"topic": topic, "payload": payload} for topic, payload in pairs))


class Echoes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.window = EchoWindow(["in/#"], entries=ENTRIES, seconds=SECONDS, clock=lambda: self.now)
        self.model: list[tuple[float, tuple[str, bytes]]] = []

    @rule(pairs=PAIRS)
    def send(self, pairs: list[tuple[str, bytes]]) -> None:
        self.window.sent(rows(pairs))
        self.model += [(self.now, pair) for pair in pairs if pair[0] != "out"]
        self.forget_old()

    @rule(pairs=PAIRS)
    def take_back(self, pairs: list[tuple[str, bytes]]) -> None:
        self.window.unsent(rows(pairs))
        for pair in pairs:
            mine = [at for at, (_, one) in enumerate(self.model) if one == pair]
            if mine:
                del self.model[mine[-1]]

    @rule(pairs=PAIRS)
    def come(self, pairs: list[tuple[str, bytes]]) -> None:
        self.forget_old()
        expected = []
        for pair in pairs:
            mine = [at for at, (_, one) in enumerate(self.model) if one == pair]
            expected.append(bool(mine))
            if mine:
                del self.model[mine[0]]
        found = self.window.echoes(rows(pairs))
        assert ([False] * len(pairs) if found is None else found.tolist()) == expected

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def come_back(self) -> None:
        self.window.resumed()
        self.model = [(self.now, pair) for _, pair in self.model]

    @rule()
    def lose_the_session(self) -> None:
        self.window.session_lost()
        self.model = []

    def forget_old(self) -> None:
        self.model = [(at, pair) for at, pair in self.model if at >= self.now - SECONDS]

    @invariant()
    def it_is_bounded(self) -> None:
        assert len(self.window) <= len(self.window._order) <= ENTRIES


TestEchoes = Echoes.TestCase
TestEchoes.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
