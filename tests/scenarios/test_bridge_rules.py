"""What the rules of a route do to its messages, in both directions and by both engines."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.world import DIRECTIONS, World
from support.client import Client, Message
from support.waiting import until

pytestmark = [pytest.mark.mosquitto, pytest.mark.xdist_group("world")]  # one world for both files

HOP = "hmq-bridge-hop-count"
both_ways = pytest.mark.parametrize("direction", DIRECTIONS)


def crossed(world: World, direction: str, sent: list[Message], *filters: str, bridge: str = "rules") -> list[Message]:
    """What comes out at the other end under these filters, when everything that was sent has gone its way."""
    with world.clients(direction) as (source, target):
        for topic_filter in filters:
            target.subscribe(topic_filter)
        source.publish_all(sent)
        settle(world, source, direction, bridge)
        return target.barrier()


def settle(world: World, source: Client, direction: str, bridge: str) -> None:
    """A message behind all others has crossed: what is not there now does not come."""
    routes = world.node.routes(bridge, direction)
    before = sum(route["delivered"] for route in routes)
    end = "rules/{}/end" if bridge == "rules" else bridge + "/{}/end"
    source.publish_all([Message(f"{world.engine}/{end.format(direction)}", b"end", 2)])
    until(lambda: sum(r["delivered"] for r in world.node.routes(bridge, direction)) > before, "the last message crosses")
    world.node.wait_drained()


def prefix(world: World, direction: str) -> str:
    return f"{world.engine}/rules/{direction}"


def told(messages: list[Message]) -> list[tuple[str, bytes, int]]:
    return [(message.topic, message.payload, message.qos) for message in messages]


def user_properties(message: Message) -> list[tuple[str, str]]:
    given: list[tuple[str, str]] = message.properties.get("UserProperty", [])
    return given


@both_ways
def test_a_destination_holds_the_whole_topic(world: World, direction: str) -> None:
    start = prefix(world, direction)
    sent = [Message(f"{start}/whole", b"1", 1), Message(f"{start}/whole/deep/er", b"2", 1)]
    came = crossed(world, direction, sent, f"cloud/{start}/#")
    assert told(came) == [(f"cloud/{start}/whole", b"1", 1), (f"cloud/{start}/whole/deep/er", b"2", 1)]


@both_ways
def test_a_destination_may_go_on_behind_the_topic(world: World, direction: str) -> None:
    start = prefix(world, direction)
    came = crossed(world, direction, [Message(f"{start}/around/x", b"1", 1)], f"before/{start}/#")
    assert told(came) == [(f"before/{start}/around/x/after", b"1", 1)]


@both_ways
def test_a_literal_destination_is_the_topic_of_all(world: World, direction: str) -> None:
    start = prefix(world, direction)
    sent = [Message(f"{start}/literal/{number}", b"%d" % number, 1) for number in range(5)]
    came = crossed(world, direction, sent, f"one/place/{start}")
    assert told(came) == [(f"one/place/{start}", b"%d" % number, 1) for number in range(5)]


@both_ways
def test_a_destination_is_made_of_names_and_of_levels_of_the_topic(world: World, direction: str) -> None:
    start, before = prefix(world, direction), f"rules/edge-{world.engine}/{world.engine}-{direction}"
    sent = [Message(f"{start}/levels/{rest}", rest.encode(), 1) for rest in ("a", "a/b", "a/b/c")]
    came = crossed(world, direction, sent, "rules/#")
    assert told(came) == [
        (f"{before}/{{5}}/a", b"a", 1),
        (f"{before}/b/{{5}}/a/b", b"a/b", 1),
        (f"{before}/b/{{5}}/a/b/c", b"a/b/c", 1),
    ]


@both_ways
def test_a_destination_is_made_of_what_the_wildcards_of_the_filter_stand_for(world: World, direction: str) -> None:
    start, before = prefix(world, direction), f"wild/{world.engine}/{direction}"
    sent = [Message(f"{start}/wild/{rest}", b"", 1) for rest in ("one/x/a/b", "two/x", "three/y/a")]
    came = crossed(world, direction, sent, f"{before}/#")
    assert [message.topic for message in came] == [f"{before}/a/b/one", f"{before}/two"]


@both_ways
def test_a_destination_names_the_client_that_published(world: World, direction: str) -> None:
    """Of what is pulled that is the bridge: who published it there, the remote does not tell."""
    start, before = prefix(world, direction), f"who/{world.engine}/{direction}"
    with world.clients(direction) as (source, target):
        target.subscribe(f"{before}/#")
        source.publish_all([Message(f"{start}/who/x", b"", 1)])
        [came] = target.wait_for(1)
        name = source.paho._client_id.decode() if direction == "push" else f"{world.engine}-rules"
        assert came.topic == f"{before}/{name}"


@both_ways
def test_a_message_that_has_no_destination_is_a_dead_letter_and_stops_no_other(world: World, direction: str) -> None:
    start, last = prefix(world, direction), f"short-{world.engine}-{direction}"
    sent = [Message(f"{start}/short/a{rest}", rest.encode(), 1) for rest in (f"/{last}", "", f"/{last}/more")]
    came = crossed(world, direction, sent, last)
    assert told(came) == [(last, f"/{last}".encode(), 1), (last, f"/{last}/more".encode(), 1)]
    [route] = [each for each in world.node.routes("rules", direction) if f"{start}/short/#" in each["filters"]]
    assert (route["deadLettered"], route["entered"], route["delivered"]) == ({"no-destination": 1}, 3, 2)
    code, body = world.node.get(f"/api/v1/deadletters?route={route_id(world, start, direction)}")
    assert code == 200
    assert [(letter["topic"], letter["reason"]) for letter in body["deadLetters"]] == [(f"{start}/short/a", "no-destination")]


def route_id(world: World, start: str, direction: str) -> str:
    routes = world.node.status()["routes"].items()
    return next(name for name, each in routes if each["filters"] == [f"{start}/short/#"] and each["direction"] == direction)


@both_ways
def test_a_topic_is_rewritten_by_a_regular_expression(world: World, direction: str) -> None:
    start = prefix(world, direction)
    came = crossed(world, direction, [Message(f"{start}/old/{rest}", b"", 1) for rest in ("ab/c", "d")], f"{start}/new/#")
    assert [message.topic for message in came] == [f"{start}/new/abab/c", f"{start}/new/dd"]


def test_what_an_exclude_matches_stays_here_and_is_counted(world: World) -> None:
    start = prefix(world, "push")
    stay = [f"{start}/most/test/a", f"{start}/most/test", f"{start}/most/x/secret"]
    go = [f"{start}/most", f"{start}/most/x", f"{start}/most/x/y/secret"]
    sent = [Message(topic, b"", 1) for pair in zip(stay, go, strict=True) for topic in pair]
    came = crossed(world, "push", sent, f"{start}/most/#")
    assert [message.topic for message in came] == go
    assert world.node.routes("rules", "push")[0]["droppedBefore"] == {"excluded": 3}


@both_ways
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_max_qos_lowers_what_is_above_it(world: World, direction: str, limit: int) -> None:
    start = prefix(world, direction)
    sent = [Message(f"{start}/max{limit}", b"%d" % qos, qos) for qos in (0, 1, 2)]
    came = crossed(world, direction, sent, f"{start}/max{limit}")
    assert {message.payload: message.qos for message in came} == {b"%d" % qos: min(qos, limit) for qos in (0, 1, 2)}


@both_ways
def test_user_properties_of_the_rule_stand_between_those_of_the_message_and_the_hop_count(world: World, direction: str) -> None:
    topic = f"{prefix(world, direction)}/labelled"
    sent = [
        Message(topic, b"", 1, properties={"UserProperty": [("own", "1"), (HOP, "0"), ("own", "2"), (HOP, "7")]}),
        Message(topic, b"", 1),
        Message(topic, b"", 1, properties={"UserProperty": [(HOP, "many")]}),
    ]
    came = crossed(world, direction, sent, topic)
    added = [("site", "plant-7"), ("site", "hall-a"), (HOP, "1")]
    assert [user_properties(message) for message in came] == [[("own", "1"), ("own", "2"), *added], added, added]


@both_ways
@pytest.mark.parametrize(("rule", "kept"), [("retain", True), ("max2", False)])
def test_the_retain_flag_crosses_only_where_the_rule_preserves_it(world: World, direction: str, rule: str, kept: bool) -> None:
    topic = f"{prefix(world, direction)}/{rule}/{direction}"
    with world.clients(direction) as (source, target):
        target.subscribe(topic, retainAsPublished=True)
        source.publish_all([Message(topic, b"kept?", 1, retain=True)])
        assert [message.retain for message in target.wait_for(1)] == [kept]
        world.node.wait_drained()
        later = Client(world.remote.port if direction == "push" else world.node.port)
        with later:
            later.subscribe(topic)
            assert [(m.payload, m.retain) for m in later.barrier()] == ([(b"kept?", True)] if kept else [])
        source.publish_all([Message(topic, b"", 1, retain=True)])
        target.wait_for(2)
        world.node.wait_drained()


@both_ways
def test_filters_of_one_route_that_overlap_deliver_once(world: World, direction: str) -> None:
    start = prefix(world, direction)
    sent = [Message(f"{start}/overlap/a/x", b"%d" % number, number % 3) for number in range(30)]
    came = crossed(world, direction, sent, f"{start}/overlap/#")
    assert sorted(message.payload for message in came) == sorted(message.payload for message in sent)


@both_ways
def test_every_route_that_matches_gets_its_copy(world: World, direction: str) -> None:
    start = prefix(world, direction)
    came = crossed(
        world, direction, [Message(f"{start}/both/x", b"1", 2)], f"first/{start}/#", f"second/{start}/#"
    )
    assert sorted(told(came)) == [(f"first/{start}/both/x", b"1", 2), (f"second/{start}/both/x", b"1", 2)]


@both_ways
def test_a_bridge_that_does_not_persist_lowers_all_to_qos_0(world: World, direction: str) -> None:
    topic = f"{world.engine}/volatile/{direction}/x"
    sent = [Message(topic, b"%d" % qos, qos) for qos in (0, 1, 2)]
    came = crossed(world, direction, sent, topic, bridge="volatile")
    assert told(came) == [(topic, b"%d" % qos, 0) for qos in (0, 1, 2)]


@both_ways
@pytest.mark.parametrize(("bridge", "limit"), [("five", 1), ("far", 2)])
def test_a_message_crosses_as_many_bridges_as_the_hop_limit_says(
    world: World, direction: str, bridge: str, limit: int
) -> None:
    topic = f"{world.engine}/{bridge}/{direction}/hops"

    def dropped() -> int:
        return sum(route["droppedBefore"].get("loop", 0) for route in world.node.routes(bridge, direction))

    before = dropped()
    sent = [Message(topic, b"%d" % hops, 1, properties={"UserProperty": [(HOP, str(hops))]}) for hops in range(4)]
    came = crossed(world, direction, sent, topic, bridge=bridge)
    assert [(int(m.payload), user_properties(m)) for m in came] == [(hops, [(HOP, str(hops + 1))]) for hops in range(limit)]
    assert dropped() - before == 4 - limit


@both_ways
def test_a_bridge_without_loop_prevention_passes_the_hop_count_on_as_it_came(world: World, direction: str) -> None:
    topic = f"{world.engine}/uncounted/{direction}/x"
    given: list[dict[str, Any]] = [{"UserProperty": [("a", "1"), (HOP, "5")]}, {}]
    came = crossed(world, direction, [Message(topic, b"", 1, properties=each) for each in given], topic, bridge="uncounted")
    assert [message.properties for message in came] == given


def loops(world: World, bridge: str, direction: str) -> int:
    return sum(int(route["droppedBefore"].get("loop", 0)) for route in world.node.routes(bridge, direction))


def test_two_bridges_both_ways_send_nothing_back(world: World) -> None:
    topic = f"{world.engine}/circle/x"
    bridges = ("circle-a", "circle-b")
    with Client(world.node.port) as here, Client(world.remote.port) as there:
        here.subscribe(topic)
        there.subscribe(topic)
        here.publish_all([Message(topic, b"from here", 1)])
        until(lambda: all(loops(world, each, "pull") == 1 for each in bridges), "each sees the other's copy and drops it")
        world.node.wait_drained()
        assert [message.payload for message in here.barrier()] == [b"from here"]
        assert [message.payload for message in there.barrier()] == [b"from here"] * 2
        there.publish_all([Message(topic, b"from there", 1)])
        until(lambda: all(loops(world, each, "push") == 2 for each in bridges), "neither sends a pulled copy back")
        world.node.wait_drained()
        assert [message.payload for message in here.barrier()] == [b"from here"] + [b"from there"] * 2
        assert [message.payload for message in there.barrier()] == [b"from here"] * 2 + [b"from there"]
