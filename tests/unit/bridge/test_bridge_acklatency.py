"""The time that the remote takes to acknowledge, message by message, from what is noted batch by batch."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.bridge.acklatency import BOUNDS, FOLD_BATCHES, AckLatency


def ids(*numbers: int) -> npt.NDArray[np.uint16]:
    return np.array(numbers, np.uint16)


def counts(latency: AckLatency) -> list[int]:
    return [count for _, count in latency.histogram().below]


def test_a_bucket_holds_what_took_no_longer_than_its_end() -> None:
    latency = AckLatency(100)
    latency.sent(ids(1, 2, 3), 10.0)
    latency.acknowledged(ids(2), 10.25)
    latency.acknowledged(ids(1), 10.375)
    latency.acknowledged(ids(3), 110.0)
    below = dict(latency.histogram().below)
    assert list(below) == [*BOUNDS, float("inf")]
    assert (below[0.1], below[0.25], below[0.5], below[60.0], below[float("inf")]) == (0, 1, 2, 2, 3)
    assert latency.histogram().total == 0.25 + 0.375 + 100.0


def test_what_an_earlier_life_has_sent_does_not_count() -> None:
    latency = AckLatency(100)
    latency.acknowledged(ids(7), 10.0)
    assert counts(latency)[-1] == 0
    latency.sent(ids(7), 20.0)
    latency.acknowledged(ids(7), 21.0)
    assert counts(latency)[-1] == 1


def test_an_id_that_is_used_again_counts_from_its_last_message_on() -> None:
    latency = AckLatency(10)
    for moment in (5.0, 50.0):
        latency.sent(ids(1), moment)
        latency.acknowledged(ids(1), moment + 2.0)
    assert latency.histogram().total == 4.0


def test_nothing_is_nothing() -> None:
    latency = AckLatency(10)
    latency.sent(ids(), 1.0)
    latency.acknowledged(ids(), 1.0)
    assert counts(latency) == [0] * (len(BOUNDS) + 1)


def test_what_is_laid_aside_is_bounded() -> None:
    latency = AckLatency(10)
    for moment in range(1, 3 * FOLD_BATCHES):
        latency.sent(ids(1), moment)
        latency.acknowledged(ids(1), moment + 0.5)
        assert len(latency._aside) <= FOLD_BATCHES
    assert counts(latency)[-1] == 3 * FOLD_BATCHES - 1


@given(st.lists(st.lists(st.floats(0.0, 100.0, allow_subnormal=False), min_size=1, max_size=20), max_size=40))
def test_the_histogram_is_that_of_every_single_message(batches: list[list[float]]) -> None:
    latency = AckLatency(20)
    expected = [0] * (len(BOUNDS) + 1)
    for batch in batches:
        for place, took in enumerate(batch):
            latency.sent(ids(place), 200.0 - took)
        latency.acknowledged(ids(*range(len(batch))), 200.0)
        for took in batch:
            expected[bisect_left(BOUNDS, 200.0 - (200.0 - took))] += 1
    assert counts(latency) == list(accumulate(expected))
