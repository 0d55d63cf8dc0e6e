"""Several filters of one subscriber: how those that overlap become filters of which no two select the same topic."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridgehead.wire.filtersets import any_meet, apart, meet, overlaps, without_covered
from bridgehead.wire.topicnames import covers, matches
from making.filters import TOPICS, topic_filters

FILTERS = st.lists(topic_filters(), min_size=1, max_size=6)


def all_joined(filters: list[str]) -> bool:
    return all(each.joined for each in overlaps(filters))


@given(FILTERS, TOPICS)
def test_filters_put_apart_select_each_topic_once_and_lose_none(filters: list[str], topic: str) -> None:
    found = apart(filters)
    before, brought = (sum(matches(each, topic) for each in some) for some in (without_covered(filters), found))
    assert brought >= bool(before)
    if all_joined(filters):
        assert not any_meet(found)
        assert brought <= 1
    assert brought <= max(before, 1)  # also where filters are left to overlap, no more copies come than without joining


@given(FILTERS, st.randoms(use_true_random=False))
def test_filters_put_apart_are_the_same_in_whatever_order_they_are_given(filters: list[str], chance: object) -> None:
    assume(all_joined(filters))
    shuffled = list(filters)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    # "+/#" and "#" select the same
    assert {"#" if each == "+/#" else each for each in apart(filters)} == {
        "#" if each == "+/#" else each for each in apart(shuffled)
    }


@given(FILTERS)
def test_only_filters_that_overlap_are_changed(filters: list[str]) -> None:
    given, found = without_covered(filters), overlaps(filters)
    strangers = [each for each in given if not any(meet(each, wide) for wide in (one.wide for one in found))]
    assert set(strangers) <= set(apart(filters))
    assert all(covers(one.wide, each) for one in found for each in one.parts)
    assert all(len(one.parts) > 1 for one in found)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["a/+", "+/b"], ["+/+"]),
        (["x/a/+", "c", "x/+/b"], ["x/+/+", "c"]),
        (["x/a/#", "x/+/b"], ["x/+/#"]),
        (["x/a/#", "x/+"], ["x/+/#"]),  # a/# selects a too
        (["a/#", "a", "a/b/c"], ["a/#"]),
        (["x/a/+", "x/+/b", "x/c/c/d", "x/+/+/d"], ["x/+/+", "x/+/+/d"]),
        (["x/a/+/1", "x/+/b/1", "x/c/c/+"], ["x/+/+/+"]),  # the first two become one that meets the third
        (["#", "$SYS/+/a", "$SYS/b/+"], ["#", "$SYS/+/+"]),
        (["+/a", "$SYS/a"], ["+/a", "$SYS/a"]),
        (["$share/g/a/+", "$share/g/a/+", "+/b", "$share/h/+/b"], ["$share/g/a/+", "+/b", "$share/h/+/b"]),
    ],
)
def test_filters_that_overlap_are_joined_level_by_level(filters: list[str], expected: list[str]) -> None:
    assert apart(filters) == expected


def test_an_overlap_is_told_with_those_that_made_it_and_what_covers_them() -> None:
    assert overlaps(["x/a/+", "x/+/b", "x/a/b", "x/c/c", "y"]) == [(["x/a/+", "x/+/b"], "x/+/+", True)]
    assert overlaps(["a/#", "a/b"]) == []
    assert without_covered(["a/b", "a/#", "c"]) == ["a/#", "c"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["a/#", "+/b"], ["a/#", "+/b"]),
        (["a/+/#", "a/x/y", "+/b"], ["a/+/#", "+/b"]),
        (["a/#", "x/1/+", "+/b", "x/+/1"], ["a/#", "+/b", "x/+/+"]),  # what has nothing to do with them is joined all the same
        (["a/1/+", "a/+/x", "+/b/#"], ["a/1/+", "a/+/x", "+/b/#"]),  # joined, the first two would overlap the third more
        (["#", "+/b", "a/#"], ["#"]),
        (["+/+/#", "a/#"], ["+/#"]),  # as good as everything is wanted anyway
    ],
)
def test_filters_that_only_everything_covers_stay_as_they_are(filters: list[str], expected: list[str]) -> None:
    assert apart(filters) == expected
