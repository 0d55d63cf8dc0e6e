"""What becomes of refused rows, with a clock in the test's hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bridgehead.bridge.poison import DELAYS, RETRIED, Death, Poison, Verdict

QUOTA, NOT_AUTHORIZED = 0x97, 0x87


def seqs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def refuse(poison: Poison, *rows: int, topic: str = "t", reason: int = QUOTA, now: float = 0.0) -> Verdict:
    return poison.refused(rows, [reason] * len(rows), [topic] * len(rows), now)


def park(poison: Poison, *rows: int, topic: str = "t") -> list[bool]:
    return list(poison.park(seqs(*rows), pa.array([topic] * len(rows), pa.string())))


def due(poison: Poison, now: float, most: int = 100) -> list[int]:
    return list(poison.due(now, most))


@pytest.mark.parametrize("reason", [0x81, 0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B, 0xFF])
def test_a_row_that_can_never_be_taken_is_dead_at_once(reason: int) -> None:
    poison = Poison()
    assert refuse(poison, 5, reason=reason).deaths == [Death(5, reason, 1)]
    assert not poison.holding


@pytest.mark.parametrize("reason", [0x80, 0x83, 0x97, 0x89, 0x91, 0x96])
def test_a_refusal_that_may_pass_is_tried_again_after_growing_pauses_and_then_the_row_is_dead(reason: int) -> None:
    poison = Poison()
    assert reason in RETRIED
    now = 100.0
    for attempt, delay in enumerate(DELAYS, 1):
        assert refuse(poison, 5, reason=reason, now=now).deaths == [], attempt
        assert poison.next_due == now + delay
        assert due(poison, now + delay - 0.001) == []
        now += delay
        assert due(poison, now) == [5]
        assert poison.next_due is None, "it is on the wire: there is nothing to wait for but its answer"
    assert refuse(poison, 5, reason=reason, now=now).deaths == [Death(5, reason, len(DELAYS) + 1)]
    assert not poison.holding


def test_later_rows_of_the_topic_wait_in_order_and_other_topics_flow() -> None:
    poison = Poison()
    refuse(poison, 1)
    mixed = poison.park(seqs(2, 3, 4), pa.array(["t", "other", "t"], pa.string()))
    assert list(mixed) == [False, True, False]
    assert poison.held == 3
    assert due(poison, 1.0) == [1], "alone"
    assert due(poison, 50.0) == [], "nothing overtakes the row that is being tried"
    poison.delivered(seqs(1))
    assert park(poison, 5) == [False], "behind those that wait"
    assert due(poison, 50.0, most=2) == [2, 4]
    assert due(poison, 50.0) == [5]
    assert not poison.holding
    assert poison.reordered == 0


def test_when_a_row_is_given_up_those_behind_it_get_one_chance_each() -> None:
    poison = Poison(delays=(1.0,))
    refuse(poison, 1)
    park(poison, 2, 3, 4)
    assert due(poison, 1.0) == [1]
    assert refuse(poison, 1, now=1.0).deaths == [Death(1, QUOTA, 2)]
    assert due(poison, 1.0) == [2, 3, 4]
    poison.delivered(seqs(3))
    assert refuse(poison, 2, 4, now=1.0).deaths == [Death(2, QUOTA, 1), Death(4, QUOTA, 1)]
    refuse(poison, 5, now=2.0)
    assert due(poison, 3.0) == [5], "a row that came later has all its tries"


def test_rows_that_are_refused_together_are_tried_one_by_one_and_follow_each_other() -> None:
    poison = Poison()
    refuse(poison, 1, 2, 3)
    assert due(poison, 1.0) == [1]
    refuse(poison, 1, now=1.0)
    assert due(poison, 2.9) == []
    assert due(poison, 3.0) == [1]
    poison.delivered(seqs(1))
    assert due(poison, 3.0) == [2, 3]


def test_no_row_is_tried_before_its_own_time_even_if_the_one_before_it_got_through() -> None:
    poison = Poison()
    refuse(poison, 1)
    refuse(poison, 2, now=0.9)
    assert due(poison, 1.0) == [1]
    poison.delivered(seqs(1))
    assert due(poison, 1.0) == []
    assert poison.next_due == 1.9
    assert due(poison, 1.9) == [2]


def test_what_had_left_behind_a_refused_row_and_is_delivered_counts_as_reordered_once() -> None:
    poison = Poison()
    verdict = refuse(poison, 1, 3)
    assert verdict.suspects
    poison.left_behind([0, 2, 4, 5, 6], ["t", "t", "t", "other", "t"])
    poison.delivered(seqs(0, 2, 4, 5))
    assert poison.reordered == 2
    assert refuse(poison, 6, reason=NOT_AUTHORIZED).deaths == [Death(6, NOT_AUTHORIZED, 1)]
    poison.delivered(seqs(4))
    assert poison.reordered == 2


def test_a_row_that_overtakes_nothing_any_more_is_not_counted() -> None:
    poison = Poison()
    refuse(poison, 1)
    poison.left_behind([2], ["t"])
    assert due(poison, 1.0) == [1]
    poison.delivered(seqs(1))
    poison.delivered(seqs(2))
    assert poison.reordered == 0


def test_when_too_many_wait_the_route_stops_until_they_have_left() -> None:
    poison = Poison(most=3)
    assert not poison.full
    refuse(poison, 1)
    park(poison, 2, 3)
    assert poison.full
    assert due(poison, 1.0) == [1]
    assert not poison.full, "it is on the wire"
    park(poison, 4)
    poison.delivered(seqs(1))
    assert poison.full
    assert due(poison, 1.0) == [2, 3, 4]
    assert not poison.full


def test_if_the_session_is_lost_a_row_that_is_tried_stays_first_of_its_topic_and_the_others_are_polled_again() -> None:
    poison = Poison()
    refuse(poison, 1)
    park(poison, 2)
    assert due(poison, 1.0) == [1]
    assert list(poison.lost(seqs(1, 7), ["t", "other"])) == [7]
    assert due(poison, 1.0) == [1]
    poison.delivered(seqs(1))
    assert due(poison, 1.0) == [2]


def test_rows_released_and_lost_wait_again_before_those_that_had_not_left() -> None:
    poison = Poison()
    refuse(poison, 1)
    park(poison, 2, 3, 4)
    assert due(poison, 1.0) == [1]
    poison.delivered(seqs(1))
    assert due(poison, 1.0, most=2) == [2, 3]
    assert list(poison.lost(seqs(2, 3), ["t", "t"])) == []
    assert due(poison, 1.0) == [2, 3, 4]


def test_a_row_that_expires_while_it_is_tried_lets_the_others_follow() -> None:
    poison = Poison()
    refuse(poison, 1)
    park(poison, 2)
    assert due(poison, 1.0) == [1]
    assert poison.gone(seqs(1, 9)) == [1, 0]
    assert due(poison, 1.0) == [2]
    assert not poison.holding


def test_nothing_is_remembered_of_rows_that_are_done() -> None:
    poison = Poison(delays=(1.0,))
    refuse(poison, 1)
    poison.left_behind([2], ["t"])
    park(poison, 3, 4)
    due(poison, 1.0)
    refuse(poison, 1, now=1.0)
    due(poison, 1.0)
    poison.delivered(seqs(2, 3))
    poison.gone(seqs(4))
    assert not poison.remembers
