"""Routes: what they are made of, and their identity."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bridgehead.errors import SettingsError
from bridgehead.settings import Route, Settings, from_document, parse
from bridgehead.settings.advice import advice
from bridgehead.settings.route import route_id


def settings_with(push: list[dict[str, Any]], pull: list[dict[str, Any]] | None = None, **root: Any) -> Settings:
    bridge = {"id": "cloud", "host": "h", "localSubscriptions": push, "remoteSubscriptions": pull or []}
    return from_document({"bridges": [bridge], **root})


def test_a_rule_becomes_a_route_with_all_it_says() -> None:
    rule = {
        "filters": ["factory/#"],
        "destination": "cloud/{#}",
        "excludes": ["factory/test/#"],
        "customUserProperties": [{"key": "site", "value": "plant-7"}, {"key": "site", "value": ""}],
        "preserveRetain": True,
        "maxQoS": 1,
        "queueLimit": 7,
        "maxQueueBytes": "1KiB",
        "strategy": "discard-oldest",
        "maxAge": 2.5,
        "engine": "inline",
    }
    [route] = settings_with([rule]).routes()
    assert route == Route(
        id=route.id,
        bridge="cloud",
        direction="push",
        filters=("factory/#",),
        destination="cloud/{#}",
        excludes=("factory/test/#",),
        custom_user_properties=(("site", "plant-7"), ("site", "")),
        preserve_retain=True,
        max_qos=1,
        queue_limit=7,
        max_queue_bytes=1024,
        strategy="discard-oldest",
        max_age=2.5,
        engine="inline",
    )


def test_what_a_rule_leaves_open_the_node_decides() -> None:
    queues = {"maxQueuedMessages": 5, "maxQueueBytes": 6, "strategy": "discard-oldest"}
    settings = settings_with([{"filters": ["a"]}], queuedMessages=queues, pipeline={"engine": "inline"})
    [open_route] = settings.bridges[0].routes()
    assert (open_route.queue_limit, open_route.max_queue_bytes, open_route.strategy, open_route.engine) == (None,) * 4
    [route] = settings.routes()
    assert (route.queue_limit, route.max_queue_bytes, route.strategy, route.engine) == (5, 6, "discard-oldest", "inline")


def test_the_identity_is_the_same_tomorrow() -> None:
    assert route_id("cloud", "push", ["a/#", "b"], "x/{#}") == "cloud.push.f05c26a0"
    assert route_id("cloud", "pull", ["a/#"], None) == "cloud.pull.997eec6a"


def test_the_order_of_filters_and_the_other_keys_do_not_change_the_identity() -> None:
    [one] = settings_with([{"filters": ["a", "b"], "maxQoS": 0}]).routes()
    [other] = settings_with([{"filters": ["b", "a"], "queueLimit": 3}]).routes()
    assert one.id == other.id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((["ab", "c"], None), (["a", "bc"], None)),
        ((["a/b"], "c"), (["a/bc"], None)),
        ((["a"], None), (["a"], "{#}")),
        ((["a", "b"], None), (["a,b"], None)),
        ((['a","b'], None), (["a", "b"], None)),
    ],
)
def test_rules_that_only_look_alike_when_joined_have_different_identities(one: Any, other: Any) -> None:
    assert route_id("x", "push", *one) != route_id("x", "push", *other)


def test_push_and_pull_with_the_same_filters_are_two_routes() -> None:
    routes = settings_with([{"filters": ["a"]}], [{"filters": ["a"]}]).routes()
    assert [route.direction for route in routes] == ["push", "pull"]
    assert len({route.id for route in routes}) == 2


def test_the_same_route_twice_in_a_bridge_is_a_fault() -> None:
    rules = [{"filters": ["a", "b"], "destination": "x"}, {"filters": ["c"]}]
    with pytest.raises(SettingsError) as caught:
        settings_with([*rules, {"filters": ["b", "a"], "destination": "x", "maxQoS": 0}])
    [(path, text)] = caught.value.faults
    assert path == "bridges[0].localSubscriptions[2]"
    assert text.startswith("the same route as bridges[0].localSubscriptions[0]")


def test_only_push_rules_have_excludes() -> None:
    with pytest.raises(SettingsError, match="unknown key"):
        settings_with([], [{"filters": ["a"], "excludes": ["b"]}])


def test_a_destination_is_filled_in_with_what_is_known_before_the_first_message() -> None:
    rule = {"filters": ["a/+/#"], "destination": "${node}/${bridge.name}/${client.id}/$ENV{SITE}x/$ENV{NO}/\\{1}/{+1}-{2}/{+#}"}
    bridge = {"id": "cloud", "host": "h", "clientId": "edge/7", "remoteSubscriptions": [rule]}
    text = yaml.safe_dump({"node": "plant-7", "bridges": [bridge]})
    settings = parse(text, {"SITE": "ha{ll"})
    [route] = settings.routes()
    assert route.destination == "plant-7/cloud/${client.id}/ha\\{llx/\\{1}/{+1}-{2}/{+#}"
    assert route.id == parse(text, {"SITE": "other"}).routes()[0].id, "the file says the same"
    assert list(advice(settings)) == [
        "bridges[0].remoteSubscriptions[0].destination: $ENV{NO} stands for nothing: its level is left out of the topic"
    ]


def test_rewrites_are_part_of_the_identity() -> None:
    rules = [{"filters": ["a"]}, *({"filters": ["a"], "rewrite": [{"pattern": each, "replacement": "y"}]} for each in "bc")]
    routes = settings_with(rules).routes()
    assert len({route.id for route in routes}) == 3
    assert routes[1].rewrite == (("b", "y"),)
    with pytest.raises(SettingsError, match="the same route"):
        settings_with([*rules, {**rules[1], "maxQoS": 0}])


def test_messages_of_a_route_that_changes_topics_or_goes_out_may_become_dead_letters() -> None:
    changing: list[dict[str, Any]] = [{"destination": "x/{1}"}, {"rewrite": [{"pattern": "a", "replacement": "b"}]}]
    routes = settings_with([{"filters": ["a"]}], [{"filters": ["a"], **each} for each in ({}, *changing)]).routes()
    assert [route.has_dead_letters for route in routes] == [True, False, True, True]
