"""In memory against synced: what is reached and what is not, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measure import Result
from benchmarks.synced_page import pairs, results, table, verdict, window_table

MEMORY = Result("inline", 1, 0, 1, 400, "telemetry", arrived=1, per_second=400_000.0, seconds=1.0, cpu_per_million=2.0)
SYNCED = replace(
    MEMORY, system="inline-synced", per_second=200_000.0, cpu_per_million=4.0, arrived=4000, syncs=10, sync_ms=0.25)


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_the_ratio_is_that_of_the_medians_and_how_far_rounds_differ_is_shown_beside_it() -> None:
    memory = [replace(MEMORY, per_second=rate) for rate in (100.0, 300.0, 200.0)]
    synced = [replace(SYNCED, per_second=rate) for rate in (90.0, 150.0, 160.0)]
    found = [result for both in zip(memory, synced, strict=True) for result in both]
    (pair,) = pairs(found)
    assert pair.ratio == 150.0 / 200.0
    assert pair.rounds == (0.9, 0.5, 0.8)
    assert rows(table([pair]))[0][4:9] == ["200", "150", "0.75", "0.50-0.90", "reached"]


def test_loads_are_not_mixed_up_and_systems_keep_their_order() -> None:
    other = [replace(each, filling="noise", window=10_000) for each in (MEMORY, SYNCED)]
    spark = [replace(MEMORY, system="spark"), replace(SYNCED, system="spark-synced")]
    made = pairs([*spark, MEMORY, other[0], other[1], SYNCED])
    assert [(pair.system, pair.memory.filling) for pair in made] == [
        ("inline", "telemetry"), ("inline", "noise"), ("spark", "telemetry")]


def test_a_load_measured_on_one_side_only_is_no_pair() -> None:
    assert pairs([MEMORY, replace(SYNCED, window=10_000)]) == []


@pytest.mark.parametrize(("qos", "rate", "said"), [
    (1, 280_000.0, "reached"), (1, 279_999.0, "**not reached**"), (2, 279_999.0, "no bound"), (2, 400_000.0, "no bound"),
])
def test_each_row_of_qos_1_is_judged_by_the_bound(qos: int, rate: float, said: str) -> None:
    made = pairs([replace(MEMORY, qos=qos), replace(SYNCED, qos=qos, per_second=rate)])
    assert rows(table(made))[0][8] == said


def test_a_side_that_failed_is_told_and_does_not_count_as_reached() -> None:
    made = pairs([MEMORY, replace(SYNCED, arrived=0, per_second=0.0, error="gone")])
    assert rows(table(made))[0][4:9] == ["400,000", "failed", "–", "", "**not reached**"]
    assert "0 of 1 loads" in verdict(made)
    assert "- inline-synced, QoS 1: gone" in "\n".join(results([replace(SYNCED, error="gone")], []))


def test_the_verdict_says_the_most_of_each_system_and_counts_the_loads_that_reach_the_bound() -> None:
    fast = replace(SYNCED, connections=4, per_second=300_000.0)
    made = pairs([MEMORY, SYNCED, replace(MEMORY, connections=4), fast, replace(MEMORY, qos=2), replace(SYNCED, qos=2)])
    assert verdict(made).endswith(
        "Bridgehead inline does 300,000 at the most, and 400,000 in memory (0.75); "
        "load by load it reaches the bound with 1 of 2 loads.")


def test_lost_and_doubled_of_both_sides_stand_out() -> None:
    made = pairs([replace(MEMORY, lost=2), replace(SYNCED, lost=3, doubled=1)])
    assert rows(table(made))[0][-2:] == ["**5**", "**1**"]


def test_a_window_that_waits_for_a_sync_bounds_the_ratio_whatever_storing_costs() -> None:
    (pair,) = pairs([MEMORY, SYNCED])
    assert pair.window_ms == 1.0
    assert pair.most == 0.8
    (four,) = pairs([replace(MEMORY, connections=4), replace(SYNCED, connections=4, arrived=16_000)])
    assert four.most == pytest.approx(4 / 4.25)   # one sync for the windows of all
    alone = replace(MEMORY, system="direct", connections=4, per_second=800_000.0)
    assert rows(window_table([four], [alone])) == [["Bridgehead inline", "4 × 400", "4.00", "0.25", "1,600", "0.94", "800,000"]]


def test_where_some_go_on_while_others_wait_for_a_sync_there_is_no_such_bound() -> None:
    (pair,) = pairs([MEMORY, replace(SYNCED, syncs=20)])
    assert pair.most is None
    assert rows(window_table([pair], [replace(MEMORY, system="direct")]))[0][-2] == "–"
