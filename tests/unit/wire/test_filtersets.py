"""Several filters of one subscriber: how those that overlap become filters of which no two select the same topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.wire.filtersets import any_meet, apart, joins, meet, too_wide, without_covered
from bridgehead.wire.topicnames import covers, matches
from making.filters import TOPICS, topic_filters

FILTERS = st.lists(topic_filters(), min_size=1, max_size=6)


@given(FILTERS, TOPICS)
def test_filters_put_apart_select_each_topic_once_and_lose_none(filters: list[str], topic: str) -> None:
    found = apart(filters)
    assert not any_meet(found)
    wanted = any(matches(each, topic) for each in filters)
    brought = sum(matches(each, topic) for each in found)
    assert brought == 1 if wanted else brought <= 1


@given(FILTERS, st.randoms(use_true_random=False))
def test_filters_put_apart_are_the_same_in_whatever_order_they_are_given(filters: list[str], chance: object) -> None:
    shuffled = list(filters)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    # "+/#" and "#" select the same
    assert {"#" if each == "+/#" else each for each in apart(filters)} == {
        "#" if each == "+/#" else each for each in apart(shuffled)
    }


@given(FILTERS)
def test_only_filters_that_overlap_are_changed(filters: list[str]) -> None:
    strangers = [each for each in filters if not any(meet(each, other) for other in filters if other != each)]
    alone_before = [each for each in strangers if not any(meet(each, wide) for wide, _ in joins(filters))]
    assert set(alone_before) <= set(apart(filters))
    assert all(covers(wide, each) for wide, parts in joins(filters) for each in parts)
    assert all(len(parts) > 1 for _, parts in joins(filters))


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


def test_a_join_is_told_with_those_that_made_it_necessary() -> None:
    assert joins(["x/a/+", "x/+/b", "x/a/b", "x/c/c", "y"]) == [("x/+/+", ["x/a/+", "x/+/b"])]
    assert joins(["a/#", "a/b"]) == []
    assert without_covered(["a/b", "a/#", "c"]) == ["a/#", "c"]


@pytest.mark.parametrize(
    ("filters", "wide"),
    [
        (["a/#", "+/b"], "+/#"),
        (["a/+/#", "+/b"], "+/+/#"),
        (["a/+", "+/b"], None),
        (["x/a/#", "x/+/b"], None),
        (["#", "+/b", "a/#"], None),
        (["+/+/#", "a/#"], None),  # as good as everything is wanted anyway
    ],
)
def test_filters_that_only_everything_covers_are_known(filters: list[str], wide: str | None) -> None:
    found = too_wide(filters)
    assert (found and found[0]) == wide
