"""A forwarder: tier 2 is what was polled and not sent; it goes first, and all of it returns at a cut."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.bridge import tier2 as module
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.clock import now_us
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.rows import numbered, numbers, outbox_rows


class Route:
    def __init__(self, tier2: int = 10) -> None:
        self.engine = MemoryEngine()
        self.outbox = Outbox("r", self.engine, 1000, 1 << 30)
        self.forwarder = Forwarder(0, self.outbox, tier2)
        self.next = 0

    def land(self, *sizes: int, topic: str = "t") -> None:
        for size in sizes:
            changes = Changes()
            self.outbox.land(changes, outbox_rows(*numbered(self.next, size, topic=topic)))
            self.engine.write(changes)
            self.outbox.landed()
            self.next += size

    def take(self, max_rows: int = 100, now: float = 0.0) -> list[int]:
        polled = self.forwarder.next(max_rows, now)
        return numbers(polled.batch) if polled else []

    def take_all(self) -> list[int]:
        found: list[int] = []
        while self.forwarder.has_rows:
            found += self.take()
        return found


def test_while_there_is_no_connection_tier_2_fills_to_its_bound() -> None:
    route = Route(tier2=5)
    route.land(3, 3, 3)
    route.forwarder.hold()
    assert route.forwarder.tier2 == 5
    assert route.outbox.in_flight == 5
    route.forwarder.hold()
    assert route.forwarder.tier2 == 5
    assert route.take_all() == list(range(9))


def test_tier_2_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIER2_BYTES", 1)
    route = Route()
    route.land(1, 1, 1)
    route.forwarder.hold()
    assert route.forwarder.tier2 == 1


def test_no_more_rows_are_taken_than_asked_for_and_none_is_skipped() -> None:
    route = Route()
    route.land(4, 4)
    route.forwarder.hold()
    assert [route.take(3), route.take(3), route.take(3), route.take(3)] == [[0, 1, 2], [3], [4, 5, 6], [7]]


def test_rows_given_back_go_first_again() -> None:
    route = Route()
    route.land(4, 4)
    route.forwarder.hold()
    polled = route.forwarder.next(4, 0.0)
    assert polled is not None
    route.forwarder.give_back(polled.split(1)[1])
    assert route.forwarder.has_rows
    assert route.take_all() == [1, 2, 3, 4, 5, 6, 7]


def test_at_a_cut_unsent_rows_and_tier_2_wait_in_the_outbox_again_in_order() -> None:
    route = Route()
    route.land(2, 2, 2)
    assert route.take(2) == [0, 1]
    route.forwarder.hold()
    route.forwarder.return_all(np.array([1]))
    assert (route.forwarder.tier2, route.outbox.in_flight) == (0, 1)
    assert route.take_all() == [1, 2, 3, 4, 5]


def test_what_is_held_and_not_sent_is_told_by_the_queues_themselves() -> None:
    route = Route()
    route.land(2)
    assert route.forwarder.has_rows
    route.forwarder.hold()
    assert not route.outbox.has_waiting
    assert route.forwarder.has_rows
    route.take_all()
    assert not route.forwarder.has_rows


def test_an_empty_return_says_nothing_to_anybody() -> None:
    route = Route()
    woken: list[int] = []
    route.outbox.on_waiting = lambda: woken.append(1)
    route.forwarder.return_all(np.zeros(0, np.int64))
    assert woken == []


def test_rows_older_than_the_route_allows_are_dropped_when_their_turn_comes() -> None:
    route = Route()
    route.forwarder = Forwarder(0, route.outbox, 10, max_age=60.0)
    now = now_us()
    ages = [61, 59, 61, 61, 10, 62]
    changes = Changes()
    rows = [{"payload": str(at).encode(), "received_at": now - age * 1_000_000} for at, age in enumerate(ages)]
    route.outbox.land(changes, outbox_rows(*rows))
    route.engine.write(changes)
    route.outbox.landed()
    route.forwarder.hold()
    assert (route.take(), route.take()) == ([1, 4], [])
    assert route.outbox.ledger.dropped == {"too-old": 4}
    assert (route.outbox.depth, route.forwarder.tier2) == (2, 0)


def test_discard_oldest_takes_back_what_tier_2_holds() -> None:
    route = Route(tier2=4)
    route.outbox.max_rows, route.outbox.strategy = 5, "discard-oldest"
    route.land(5)
    route.forwarder.hold()
    route.land(3)
    assert route.forwarder.tier2 == 1
    assert route.take_all() == [3, 4, 5, 6, 7]


def test_rows_of_a_held_topic_that_are_given_back_keep_their_place_in_it() -> None:
    route = Route()
    route.land(4)
    assert route.take(1) == [0]
    poison = route.forwarder.poison
    poison.refused([0], [0x97], ["t"], 0.0)
    assert route.take(10) == []
    assert [route.take(10, now=1.0), poison.held] == [[0], 3]
    poison.delivered(np.array([0]))
    polled = route.forwarder.next(2, 1.0)
    assert polled is not None
    route.forwarder.give_back(polled.split(1)[1])
    assert route.take(now=1.0) == [2, 3]


def test_discard_oldest_takes_back_what_waits_behind_a_refused_message() -> None:
    route = Route()
    route.outbox.max_rows, route.outbox.strategy = 6, "discard-oldest"
    route.land(1, 5, topic="bad")
    assert route.take(1) == [0]
    poison = route.forwarder.poison
    poison.refused([0], [0x97], ["bad"], 0.0)
    assert (route.take(), poison.held) == ([], 6)
    route.land(2, topic="good")
    assert (route.take(), route.outbox.dropped) == ([6, 7], {"queue-full": 2})
    assert (route.outbox.depth, poison.held, poison.next_due) == (6, 4, 1.0)
    assert route.take(now=1.0) == [2]  # the oldest that is left is tried in the place of the refused one
    route.land(4, topic="good")
    assert (route.outbox.depth, poison.held) == (6, 0)  # what is on the wire stays: 2, 6 and 7
    poison.delivered(np.array([2]))
    assert (route.take(), poison.remembers) == ([9, 10, 11], False)
    assert route.outbox.dropped == {"queue-full": 6}


def test_what_gives_way_is_the_oldest_whether_it_waits_is_in_tier_2_or_is_held_back() -> None:
    route = Route()
    route.outbox.max_rows, route.outbox.strategy = 6, "discard-oldest"
    route.land(1, topic="bad")
    assert route.take() == [0]
    poison = route.forwarder.poison
    poison.refused([0], [0x97], ["bad"], 0.0)
    route.land(1, topic="good")  # 1
    route.land(1, topic="bad")  # 2
    route.land(1, topic="good")  # 3
    assert [route.take(1), route.take(1)] == [[1], [3]]
    route.forwarder.return_all(np.array([1, 3]))
    route.forwarder.hold()
    route.land(2, topic="good")  # 4, 5
    left = []
    for _ in range(5):
        before = set(route.outbox.rows(np.flatnonzero(route.outbox.holds(np.arange(20)))).column("payload").to_pylist())
        route.land(1, topic="good")
        after = set(route.outbox.rows(np.flatnonzero(route.outbox.holds(np.arange(20)))).column("payload").to_pylist())
        left += [int(payload) for payload in before - after]
    assert left == [0, 1, 2, 3, 4]


def test_a_row_that_is_tried_and_gives_way_in_tier_2_lets_those_behind_it_follow() -> None:
    route = Route()
    route.outbox.max_rows, route.outbox.strategy = 3, "discard-oldest"
    route.land(3, topic="bad")
    assert route.take(1) == [0]
    route.forwarder.poison.refused([0], [0x97], ["bad"], 0.0)
    assert route.take() == []
    due = route.forwarder.next(10, 1.0)
    assert due is not None
    route.forwarder.give_back(due)  # there was no room in the window
    assert route.forwarder.tier2 == 1
    route.land(1, topic="good")
    assert route.take_all() == [1, 2, 3]
