"""Topic names, filters, and which selects which."""

from __future__ import annotations

import pytest
from hypothesis import given
from paho.mqtt.client import topic_matches_sub

from bridgehead.wire.topicnames import covers, intersect, matches, share_of, valid_filter, valid_topic
from making.filters import TOPICS, topic_filters
from vectors.strategies import level, plain_filter, topic


@pytest.mark.parametrize("name", ["a", "/", "a/b", "a//b", " ", "$SYS/x", "ä/😀", "a" * 65_535, "😀" * 16_383])
def test_a_topic_name_may_be(name: str) -> None:
    assert valid_topic(name)
    assert valid_filter(name)


@pytest.mark.parametrize("name", ["", "#", "a/+", "a+", "a\0b", "a" * 65_536, "😀" * 16_384])
def test_a_topic_name_may_not_be(name: str) -> None:
    assert not valid_topic(name)


@pytest.mark.parametrize(
    "topic_filter",
    ["#", "+", "/+", "+/+/#", "a/#", "a/+/b", "/", "$SYS/#", "$share/g/a", "$share/g/#", "$share/g//", "$share",
     "$share2/a", "$sharex"],
)  # fmt: skip
def test_a_filter_may_be(topic_filter: str) -> None:
    assert valid_filter(topic_filter)


@pytest.mark.parametrize(
    "topic_filter",
    ["", "a#", "#/a", "a/#/b", "a/b#", "##", "a+", "+a/b", "++", "a/+b/c", "a\0", "a" * 65_536, "😀" * 16_384,
     "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a", "$share/g\0/a", "$share/g/a#"],
)  # fmt: skip
def test_a_filter_may_not_be(topic_filter: str) -> None:
    assert not valid_filter(topic_filter)


@pytest.mark.parametrize(
    ("topic_filter", "name"),
    [("a", "a"), ("#", "a"), ("#", "/"), ("#", "a/b/c"), ("a/#", "a"), ("a/#", "a/b/c"), ("+", "a"), ("+/+", "/"),
     ("/+", "/a"), ("a/+/c", "a/b/c"), ("a/+", "a/"), ("+/b/#", "a/b"), ("$SYS/#", "$SYS/x"), ("$SYS/+", "$SYS/x"),
     ("$SYS/#", "$SYS"), ("$share/g/a/#", "a/b"), ("$share/g//a", "/a"), ("+/$x", "a/$x")],
)  # fmt: skip
def test_a_filter_selects(topic_filter: str, name: str) -> None:
    assert matches(topic_filter, name)


@pytest.mark.parametrize(
    ("topic_filter", "name"),
    [("a", "b"), ("a", "a/"), ("a", "A"), ("+", "a/b"), ("+", "/a"), ("a/+", "a"), ("a/+", "a/b/c"), ("a/#", "ab"),
     ("a/b/#", "a"), ("+/b/#", "a"), ("#", "$SYS/x"), ("+/x", "$SYS/x"), ("+", "$SYS"), ("$share/g/#", "$SYS/x"),
     ("$share/g/a", "$share/g/a")],
)  # fmt: skip
def test_a_filter_does_not_select(topic_filter: str, name: str) -> None:
    assert not matches(topic_filter, name)


@pytest.mark.parametrize(
    ("topic_filter", "share"),
    [("a/b", (None, "a/b")), ("$share/g/a/b", ("g", "a/b")), ("$share/g//a", ("g", "/a")), ("$share", (None, "$share")),
     ("$shared/g/a", (None, "$shared/g/a"))],
)  # fmt: skip
def test_the_group_of_a_filter_is_told_apart(topic_filter: str, share: tuple[str | None, str]) -> None:
    assert share_of(topic_filter) == share


@given(plain_filter, topic)
def test_paho_selects_the_same(topic_filter: str, name: str) -> None:
    if not topic_filter.startswith("$share/"):  # paho's function knows no groups
        assert matches(topic_filter, name) == topic_matches_sub(topic_filter, name)


@given(level.filter(bool), plain_filter, topic)
def test_a_shared_filter_selects_what_its_filter_selects(group: str, topic_filter: str, name: str) -> None:
    if not topic_filter.startswith("$share/"):
        assert matches(f"$share/{group}/{topic_filter}", name) == matches(topic_filter, name)


@given(topic_filters(), topic_filters(), TOPICS)
def test_a_filter_that_covers_another_selects_all_that_it_selects(wide: str, narrow: str, topic: str) -> None:
    if covers(wide, narrow) and matches(narrow, topic):
        assert matches(wide, topic)


@given(topic_filters(), topic_filters(), TOPICS)
def test_filters_that_select_the_same_topic_intersect(one: str, other: str, topic: str) -> None:
    if matches(one, topic) and matches(other, topic):
        assert intersect(one, other)
        assert intersect(other, one)


@pytest.mark.parametrize(("wide", "narrow"), [("#", "a/b"), ("a/#", "a"), ("a/#", "a/+/c"), ("a/+", "a/b"), ("+/b", "a/b")])
def test_a_wider_filter_covers_the_narrower_and_not_the_other_way(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)
    assert not covers(narrow, wide)


@pytest.mark.parametrize(("one", "other"), [("a/b", "a/c"), ("a/+", "a"), ("#", "$SYS/x"), ("+/x", "$SYS/#"), ("a/+/c", "a/b")])
def test_filters_without_a_common_topic_do_not_intersect(one: str, other: str) -> None:
    assert not intersect(one, other)
