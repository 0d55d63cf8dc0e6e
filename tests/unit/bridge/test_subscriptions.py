"""Which filters are subscribed at the remote, and when copies are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.bridge.subscriptions import wishes_of
from bridgehead.settings.load import from_document


def wishes(version: Any, *rules: dict[str, Any], **given: Any) -> Any:
    document = {"bridges": [{"id": "b", "host": "h", "mqttVersion": version, "remoteSubscriptions": list(rules), **given}]}
    settings = from_document(document)
    return wishes_of(settings.bridges[0], settings.routes())


def test_a_covered_filter_is_not_subscribed_and_the_wider_one_gets_the_higher_qos() -> None:
    found = wishes(5, {"filters": ["a/#", "a/b"], "maxQoS": 0}, {"filters": ["a/+"], "maxQoS": 2, "preserveRetain": True})
    assert [(wish.filter, wish.qos, wish.retain_as_published) for wish in found.subscriptions] == [("a/#", 2, True)]
    assert not found.identified


def test_filters_that_overlap_in_part_are_told_apart_in_5_and_joined_in_3_1_1() -> None:
    rules = [{"filters": ["a/+", "c"], "maxQoS": 0}, {"filters": ["+/b"], "maxQoS": 1}]
    five, four = wishes(5, *rules), wishes("3.1.1", *rules)
    assert [(wish.filter, wish.qos) for wish in five.subscriptions] == [("a/+", 1), ("c", 0), ("+/b", 1)]
    assert five.identified
    assert [(wish.filter, wish.qos) for wish in four.subscriptions] == [("+/+", 1), ("c", 0)]
    assert not four.identified
    loose = wishes("3.1.1", *rules, joinFilters=False)
    assert [wish.filter for wish in loose.subscriptions] == ["a/+", "c", "+/b"]
    assert not loose.identified


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
