"""Which filters are subscribed at the remote, and when copies are told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.bridge.subscriptions import wishes_of
from bridgehead.settings.load import from_document
from bridgehead.wire.topicnames import covers, intersect, matches

LEVEL = st.sampled_from(["a", "b", "", "$s"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.one_of(LEVEL, st.just("+")), max_size=3))
    if draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "#"


@given(filters(), filters(), TOPIC)
def test_a_filter_that_covers_another_selects_all_that_it_selects(wide: str, narrow: str, topic: str) -> None:
    if covers(wide, narrow) and matches(narrow, topic):
        assert matches(wide, topic)


@given(filters(), filters(), TOPIC)
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


def wishes(version: Any, *rules: dict[str, Any]) -> Any:
    document = {"bridges": [{"id": "b", "host": "h", "mqttVersion": version, "remoteSubscriptions": list(rules)}]}
    settings = from_document(document)
    return wishes_of(settings.bridges[0], settings.routes())


def test_a_covered_filter_is_not_subscribed_and_the_wider_one_gets_the_higher_qos() -> None:
    found = wishes(5, {"filters": ["a/#", "a/b"], "maxQoS": 0}, {"filters": ["a/+"], "maxQoS": 2, "preserveRetain": True})
    assert [(wish.filter, wish.qos, wish.retain_as_published) for wish in found.subscriptions] == [("a/#", 2, True)]
    assert not found.identified


def test_filters_that_overlap_in_part_are_told_apart_in_5_and_warned_of_in_3_1_1(caplog: pytest.LogCaptureFixture) -> None:
    rule = {"filters": ["a/+", "+/b", "c"]}
    assert wishes(5, rule).identified
    assert not caplog.records
    assert not wishes("3.1.1", rule).identified
    assert "overlap" in caplog.text


def test_what_we_sent_does_not_come_back_but_for_shared_subscriptions_which_cannot_say_so() -> None:
    found = wishes(5, {"filters": ["a/#", "$share/group/b/#"]})
    assert {wish.filter: wish.no_local for wish in found.subscriptions} == {"a/#": True, "$share/group/b/#": False}


@pytest.mark.parametrize(
    ("push", "pull", "may"),
    [
        ({"filters": ["a/#"]}, "b/#", False),
        ({"filters": ["a/#"]}, "a/b", True),
        ({"filters": ["+/x"]}, "$share/group/a/#", True),
        ({"filters": ["a/#"], "destination": "up/{#}"}, "a/#", False),
        ({"filters": ["a/#"], "destination": "up/{#}"}, "up/b/#", True),
        ({"filters": ["a/#"], "destination": "{2-#}"}, "b/#", True),
        ({"filters": ["a/#"], "rewrite": [{"pattern": "a"}]}, "b/#", True),
        ({"filters": ["a/#"], "transform": {"sql": "SELECT * FROM messages"}}, "b/#", True),
    ],
)
def test_what_a_bridge_may_send_to_itself_is_known_from_its_rules(push: dict[str, Any], pull: str, may: bool) -> None:
    bridge = {"id": "b", "host": "h", "localSubscriptions": [push], "remoteSubscriptions": [{"filters": [pull]}]}
    settings = from_document({"bridges": [bridge]})
    assert wishes_of(settings.bridges[0], settings.routes()).may_echo is may
