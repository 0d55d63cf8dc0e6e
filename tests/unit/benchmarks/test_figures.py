"""Of repeated measurements the one in the middle is shown, and everything that went wrong in any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.figures import Figures, bounds, median, strangers
from benchmarks.measure import Result

ONE = Result("inline", 1, 0, 1, 400, "telemetry", sent=10, arrived=10, seconds=2.0)


def rates(*found: float) -> list[Result]:
    return [replace(ONE, per_second=rate) for rate in found]


@pytest.mark.parametrize(("found", "middle"), [((5.0,), 5.0), ((9.0, 5.0), 5.0), ((9.0, 1.0, 5.0), 5.0)])
def test_the_repetition_in_the_middle_counts_and_of_two_the_slower(found: tuple[float, ...], middle: float) -> None:
    result = median(rates(*found), lambda each: each.per_second)
    assert result is not None
    assert result.per_second == middle


def test_what_another_repetition_lost_or_doubled_is_not_hidden_by_the_median() -> None:
    slow, middle, fast = rates(1.0, 2.0, 3.0)
    result = median([replace(slow, lost=3), middle, replace(fast, doubled=2, reordered=1)], lambda each: each.per_second)
    assert result == replace(middle, sent=30, lost=3, doubled=2, reordered=1)


def test_failed_repetitions_are_left_out_unless_all_failed() -> None:
    failed = replace(ONE, arrived=0, error="gone")
    assert median([failed, *rates(4.0)], lambda each: each.per_second) == rates(4.0)[0]
    assert median([failed], lambda each: each.per_second) is failed
    assert median([], lambda each: each.per_second) is None


def test_a_bound_is_judged_against_the_peer_of_the_same_run() -> None:
    peer = replace(ONE, system="mosquitto", per_second=100.0)
    judged = {bound.what: bound.reached for bound in bounds(Figures([*rates(199.0), peer], 1))}
    assert judged["QoS 1, Bridgehead inline: messages/s"] is False
    assert judged["QoS 1, Bridgehead through Spark: messages/s"] is None
    assert Figures([*rates(200.0), peer], 1).ratio("inline", 1, lambda each: each.per_second) == 2.0


def test_what_other_programs_took_is_a_share_of_a_core() -> None:
    assert strangers([replace(ONE, stranger_cpu=taken) for taken in (0.0, 1.0, 2.0)]) == 0.5
    assert strangers([]) == 0.0
