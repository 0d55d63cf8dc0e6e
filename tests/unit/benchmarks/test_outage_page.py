"""What is said of an outage: a scenario that broke off is no proof that nothing was lost."""

from __future__ import annotations

from benchmarks.outage_cases import NOT_MEASURED, Outcome
from benchmarks.outage_page import bounds, case_table

KEPT = Outcome("kill-1", "inline", sent=10, arrived=10, rss_before=5 << 20, rss_peak=6 << 20)


def nothing_went_wrong(*found: Outcome) -> bool | None:
    return bounds(list(found))[-1].reached


def test_everything_delivered_once_and_in_order_is_what_is_demanded() -> None:
    assert nothing_went_wrong(KEPT) is True
    assert nothing_went_wrong(KEPT, Outcome("hour", "spark", sent=10, arrived=9, lost=1)) is False
    assert nothing_went_wrong(KEPT, Outcome("flood", "inline", sent=10, arrived=9, lost=1)) is True   # it is to drop
    assert nothing_went_wrong(KEPT, Outcome("hour", "mosquitto", sent=10, arrived=9, lost=1)) is True


def test_a_scenario_that_failed_reaches_nothing_and_one_that_this_machine_cannot_play_is_left_out() -> None:
    assert nothing_went_wrong(KEPT, Outcome("hour", "spark", error="ended with 1")) is False
    assert nothing_went_wrong(KEPT, Outcome("power-1", "spark", error=f"{NOT_MEASURED}: needs root")) is True


def test_memory_that_nobody_looked_at_in_time_is_not_shown_as_none() -> None:
    assert case_table([KEPT], flood=False).endswith("| 5 | – | – | 6 |")
