"""Rows that never left go in their places among those that go again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.bridge.between import Between
from bridgehead.storage.marks import Seqs


def seqs(*numbers: int) -> Seqs:
    return np.array(numbers, np.int64)


def test_only_rows_before_one_in_flight_stay() -> None:
    between = Between()
    assert between.keep(7, seqs(9, 2, 4), seqs(1, 5)).tolist() == [9]
    assert between.first == {7: 2}
    assert between.give_back(7).tolist() == [2, 4]
    assert not between


@pytest.mark.parametrize("in_flight", [(), (1,)])
def test_without_a_row_in_flight_behind_them_none_stays(in_flight: tuple[int, ...]) -> None:
    between = Between()
    assert between.keep(7, seqs(3, 2), seqs(*in_flight)).tolist() == [2, 3]
    assert not between


def test_no_more_go_at_once_than_may() -> None:
    between = Between()
    between.keep(7, seqs(1, 2, 3), seqs(4))
    assert [between.take((7, 4), 2), between.take((7, 4), 2)] == [(7, pytest.approx([1, 2])), (7, pytest.approx([3]))]


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_every_queue_keeps_its_order(rows: list[tuple[int, bool]]) -> None:
    """Row by row its queue, and whether it is in flight."""
    between, came = Between(), list[tuple[int, int]]()
    again = [(queue, seq) for seq, (queue, in_flight) in enumerate(rows) if in_flight]
    behind = {
        queue: between.keep(
            queue,
            seqs(*(seq for seq, row in enumerate(rows) if row == (queue, False))),
            seqs(*(seq for owner, seq in again if owner == queue)),
        )
        for queue in range(3)
    }
    for following in (*again, None):
        while between and (taken := between.take(following, 2)) is not None:
            came += [(taken[0], seq) for seq in taken[1].tolist()]
        came += [following] if following is not None else []
    assert not between
    for queue in range(3):
        mine = [seq for owner, seq in came if owner == queue] + behind[queue].tolist()
        assert mine == [seq for seq, (owner, _) in enumerate(rows) if owner == queue]
