"""A message comes once to each route that wants it, and to no other, however filters overlap and whatever the remote does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.subscriptions import needed
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.session.stream import PacketStream
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.wire.encode import encode
from bridgehead.wire.filtersets import overlaps
from bridgehead.wire.intake import ScanResult
from bridgehead.wire.packets import Publish
from bridgehead.wire.topicnames import matches
from making.filters import TOPICS, topic_filters

ROUTES = st.lists(st.lists(topic_filters(), min_size=1, max_size=3), min_size=1, max_size=4)
PARTLY = [["a/+", "+/b"], ["+/b", "b/+"]]


def copies(subscribed: list[str], version: int, each: bool, topic: str) -> list[Publish]:
    """What the remote sends: a copy by each subscription that matches, or one for all of them."""
    by = [at for at, one in enumerate(subscribed, 1) if matches(one, topic)]
    groups = [[at] for at in by] if each else [by] if by else []
    named: list[dict[str, Any]] = [{"subscription_identifier": group} if version == 5 else {} for group in groups]
    return [Publish(topic, b"", 1, packet_id=at, properties=given) for at, given in enumerate(named, 1)]


def taken(routes: list[list[str]], subscribed: list[str], version: int, sent: list[Publish]) -> tuple[list[int], int]:
    """How many of these each route takes, and how many none does."""
    engine = MemoryEngine()
    journal = Journal(engine, 1 << 30)
    doors = [Door(DoorRule(f"r{n}", "b", tuple(filters)), journal.log("shared")) for n, filters in enumerate(routes)]
    identified = tuple(subscribed) if version == 5 else ()
    consumer = Consumer(engine, journal, doors, "edge", identified, bridge="b", drop_retained=version < 5)
    data = np.frombuffer(b"".join(encode(copy, version) for copy in sent), np.uint8)
    stream = PacketStream(from_server=True, version=version)
    assert all(isinstance(item, ScanResult) for item in stream.feed(data, len(data), consumer.gathering.intake, 0))
    if sent:
        consumer.gathering.offer(consumer.gathering.intake.take(), [])
    return [door.received for door in doors], consumer.unmatched


@settings(deadline=None)
@given(ROUTES, st.lists(TOPICS, min_size=1, max_size=8), st.sampled_from([4, 5]), st.booleans())
@example(PARTLY, ["a/b", "b/b", "a/a", "b/a", "$s/b"], 4, True)
@example(PARTLY, ["a/b", "b/b", "a/a", "b/a", "$s/b"], 5, True)
def test_each_route_gets_what_it_wants_once_and_nothing_else(
    routes: list[list[str]], topics: list[str], version: int, each: bool
) -> None:
    wanted = [one for filters in routes for one in filters]
    subscribed, _ = needed(wanted, version5=version == 5)
    # what only everything covers is left to a remote that sends one
    each = each and (version == 5 or all(one.joined for one in overlaps(wanted)))
    sent = [copy for topic in topics for copy in copies(subscribed, version, each, topic)]
    received, unmatched = taken(routes, subscribed, version, sent)
    assert received == [sum(any(matches(one, topic) for one in filters) for topic in topics) for filters in routes]
    assert unmatched == sum(not any(matches(one, copy.topic) for one in wanted) for copy in sent)


def test_what_another_member_of_a_group_got_comes_by_the_other_subscriptions() -> None:
    routes = [["$share/g/a/#", "a/+", "+/b"]]
    subscribed, identified = needed(routes[0], version5=True)
    assert identified
    by_all = copies(subscribed, 5, True, "a/b")
    assert taken(routes, subscribed, 5, by_all[1:]) == ([1], 0)
