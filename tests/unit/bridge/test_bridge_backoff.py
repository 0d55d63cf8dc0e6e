"""1, 2, 4 ... 120 seconds, plus up to a quarter."""

from __future__ import annotations

import random

from bridgehead.bridge.backoff import Backoff


class Fixed(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def test_delays_double_from_one_second_to_two_minutes() -> None:
    backoff = Backoff(chance=Fixed(0.0))
    assert [backoff.next() for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]


def test_chance_adds_up_to_a_quarter() -> None:
    backoff = Backoff(chance=Fixed(0.5))
    assert [backoff.next() for _ in range(8)] == [1.125, 2.25, 4.5, 9, 18, 36, 72, 135]


def test_no_number_of_failures_makes_the_delay_longer_or_the_sum_overflow() -> None:
    backoff = Backoff(chance=Fixed(0.0))
    backoff.attempts = 10**6
    assert backoff.next() == 120


def test_a_success_starts_again_from_one_second() -> None:
    backoff = Backoff(chance=Fixed(0.0))
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 1


def test_two_bridges_do_not_knock_at_the_same_moment() -> None:
    assert Backoff().next() != Backoff().next()
