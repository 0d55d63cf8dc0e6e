"""The messages that a transform fails on are found, and no others, in few tries."""

from __future__ import annotations

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.pipeline.takingapart import culprits


class Transform:
    """Fails on ranges with a bad message in them."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.tries = 0

    def fails(self, start: int, end: int) -> bool:
        self.tries += 1
        return any(start <= offset < end for offset in self.bad)


@given(st.integers(0, 1 << 40), st.integers(1, 300), st.data())
def test_exactly_the_messages_that_fail_are_found_in_order(start: int, rows: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(start, start + rows - 1), min_size=1, max_size=12))
    transform = Transform(bad)
    assert culprits(start, start + rows, transform.fails) == sorted(bad)
    assert transform.tries <= 2 * len(bad) * (ceil(log2(rows)) + 1)


def test_one_bad_message_takes_a_try_for_each_halving_and_one_alone() -> None:
    for offset in range(1024):
        transform = Transform({offset})
        assert culprits(0, 1024, transform.fails) == [offset]
        assert transform.tries <= 2 * 10
    last = Transform({1023})
    culprits(0, 1024, last.fails)
    assert last.tries == 11


def test_what_fails_only_together_is_nobodys_fault() -> None:
    assert culprits(0, 64, lambda start, end: end - start > 1) == []


def test_a_range_that_passes_when_it_is_tried_again_has_no_culprit() -> None:
    assert culprits(0, 64, lambda start, end: False) == []
    assert culprits(5, 5, lambda start, end: True) == []
