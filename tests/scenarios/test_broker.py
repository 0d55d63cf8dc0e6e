"""The local broker as a client sees it: connecting, subscribing, publishing, retained messages, QoS both ways."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from support.client import VERSIONS, Client, Message
from support.node import NodeProcess

every_version = pytest.mark.parametrize("version", VERSIONS)
Connect = Callable[..., Client]


@pytest.fixture
def connect(plain_node: NodeProcess, request: pytest.FixtureRequest) -> Connect:
    """Connects clients to the node; they leave when the test ends."""

    def get(version: str = "5", **arguments: object) -> Client:
        client = Client(plain_node.port, version, **arguments)  # type: ignore[arg-type]
        request.addfinalizer(client.close)
        return client

    return get


@pytest.fixture
def name() -> str:
    """A topic that no other test uses."""
    return f"test/{uuid.uuid4().hex}"


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


@every_version
def test_a_client_is_welcomed(connect: Connect, version: str) -> None:
    client = connect(version)
    assert client.connack == "Success"
    assert not client.session_present


@pytest.mark.parametrize("subscribed", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
@every_version
def test_a_message_arrives_once_at_the_lower_qos_of_the_two(
    connect: Connect, name: str, version: str, published: int, subscribed: int
) -> None:
    source, target = connect(version), connect(version)
    target.subscribe(name, subscribed)
    source.publish_all([Message(name, b"%d" % number, published) for number in range(100)])
    target.wait_for(100)
    came = target.barrier()
    assert payloads(came) == [b"%d" % number for number in range(100)]
    assert {message.qos for message in came} == {min(published, subscribed)}


def test_versions_understand_each_other(connect: Connect, name: str) -> None:
    old, new = connect("3.1.1"), connect("5")
    old.subscribe(f"{name}/new")
    new.subscribe(f"{name}/old")
    old.publish_all([Message(f"{name}/old", b"old", 2)])
    new.publish_all([Message(f"{name}/new", b"new", 2, properties={"ContentType": "x"})])
    assert payloads(new.wait_for(1)) == [b"old"]
    assert payloads(old.wait_for(1)) == [b"new"]


@pytest.mark.parametrize(
    ("topic_filter", "selected"),
    [
        ("{}/#", ["", "/a", "/a/b", "/a/b/c", "//b"]),
        ("{}/+", ["/a"]),
        ("{}/+/b", ["/a/b", "//b"]),
        ("{}/a/#", ["/a", "/a/b", "/a/b/c"]),
        ("{}/+/b/+", ["/a/b/c"]),
        ("{}/a/b", ["/a/b"]),
        ("+/+/a/b", ["/a/b"]),
    ],
)
def test_wildcards_select_what_they_say(connect: Connect, name: str, topic_filter: str, selected: list[str]) -> None:
    source, target = connect(), connect()
    target.subscribe(topic_filter.format(name))
    source.publish_all([Message(name + rest, rest.encode(), 1) for rest in ("", "/a", "/a/b", "/a/b/c", "//b")])
    assert payloads(target.barrier()) == [rest.encode() for rest in selected]


@pytest.mark.parametrize("topic_filter", ["#", "+/x", "+/#"])
def test_a_wildcard_at_the_root_leaves_topics_of_the_server_out(connect: Connect, topic_filter: str) -> None:
    source, wide, exact = connect(), connect(), connect()
    wide.subscribe(topic_filter)
    exact.subscribe("$SYS/x")
    source.publish_all([Message("$SYS/x", b"", 1)])
    exact.wait_for(1)
    assert not any(message.topic.startswith("$") for message in wide.barrier())


def test_a_client_that_unsubscribes_gets_no_more(connect: Connect, name: str) -> None:
    client = connect()
    client.subscribe(name)
    client.publish_all([Message(name, b"1", 1)])
    client.wait_for(1)
    assert [str(reason) for reason in client.unsubscribe(name)] == ["Success"]
    assert [str(reason) for reason in client.unsubscribe(name)] == ["No subscription found"]
    client.publish_all([Message(name, b"2", 1)])
    assert payloads(client.barrier()) == [b"1"]


def test_subscriptions_that_overlap_deliver_once_at_the_highest_qos_with_all_identifiers(connect: Connect, name: str) -> None:
    client = connect()
    client.subscribe(f"{name}/#", 0, identifier=7)
    client.subscribe(f"{name}/+", 2, identifier=268435455)
    client.publish_all([Message(f"{name}/a", b"both", 2), Message(f"{name}/a/b", b"one", 2)])
    came = client.barrier()
    assert {(message.payload, message.qos) for message in came} == {(b"both", 2), (b"one", 0)}
    identifiers = {message.payload: sorted(message.properties["SubscriptionIdentifier"]) for message in came}
    assert identifiers == {b"both": [7, 268435455], b"one": [7]}


def test_a_subscription_made_again_replaces_the_first(connect: Connect, name: str) -> None:
    client = connect()
    client.subscribe(name, 2, identifier=1)
    client.subscribe(name, 0, identifier=2)
    client.publish_all([Message(name, b"", 2)])
    came = client.barrier()
    assert [(message.qos, message.properties) for message in came] == [(0, {"SubscriptionIdentifier": [2]})]


def test_no_local_keeps_a_clients_own_messages_from_it(connect: Connect, name: str) -> None:
    client, other = connect(), connect()
    client.subscribe(name, noLocal=True)
    client.publish_all([Message(name, b"own", 1)])
    other.publish_all([Message(name, b"other's", 1)])
    client.wait_for(1)
    assert payloads(client.barrier()) == [b"other's"]


@every_version
def test_a_retained_message_is_kept_replaced_and_deleted(connect: Connect, name: str, version: str) -> None:
    source = connect(version)
    for payload, expected in ((b"1", [b"1"]), (b"2", [b"2"]), (b"", [])):
        source.publish_all([Message(name, payload, 1, retain=True)])
        target = connect(version)
        target.subscribe(name)
        came = target.barrier()
        assert payloads(came) == expected
        assert all(message.retain for message in came)


def test_who_is_subscribed_already_gets_a_retained_message_as_a_plain_one_unless_it_asks(connect: Connect, name: str) -> None:
    plain, asking, source = connect(), connect(), connect()
    plain.subscribe(name)
    asking.subscribe(name, retainAsPublished=True)
    source.publish_all([Message(name, b"x", 1, retain=True)])
    assert [message.retain for message in plain.wait_for(1)] == [False]
    assert [message.retain for message in asking.wait_for(1)] == [True]
    source.publish_all([Message(name, b"", 1, retain=True)])


@pytest.mark.parametrize(("handling", "first", "again"), [(0, 1, 2), (1, 1, 1), (2, 0, 0)])
def test_retain_handling_says_when_retained_messages_come(
    connect: Connect, name: str, handling: int, first: int, again: int
) -> None:
    client = connect()
    client.publish_all([Message(name, b"x", 1, retain=True)])
    client.subscribe(name, retainHandling=handling)
    assert len(client.barrier()) == first
    client.subscribe(name, retainHandling=handling)
    assert len(client.barrier()) == again
    client.publish_all([Message(name, b"", 1, retain=True)])


def test_retained_messages_come_for_a_wildcard_at_the_lower_qos_and_with_their_properties(connect: Connect, name: str) -> None:
    source, target = connect(), connect()
    given = {"ContentType": "text/plain", "UserProperty": [("k", "v")]}
    source.publish_all([Message(f"{name}/{qos}", b"x", qos, retain=True, properties=given) for qos in (0, 1, 2)])
    target.subscribe(f"{name}/+", 1)
    came = target.barrier()
    assert sorted((message.topic[-1], message.qos) for message in came) == [("0", 0), ("1", 1), ("2", 1)]
    assert [message.properties for message in came] == [given] * 3
    source.publish_all([Message(f"{name}/{qos}", b"", qos, retain=True) for qos in (0, 1, 2)])


def test_properties_reach_the_subscriber_as_they_were_sent(connect: Connect, name: str) -> None:
    client = connect()
    given = {
        "PayloadFormatIndicator": 1,
        "MessageExpiryInterval": 60,
        "ContentType": "application/json",
        "ResponseTopic": "r/t",
        "CorrelationData": b"\0\1\xff",
        "UserProperty": [("b", "1"), ("a", "2"), ("b", "3")],
    }
    client.subscribe(name)
    client.publish_all([Message(name, b"{}", 1, properties=given)])
    came = client.wait_for(1)[0].properties
    assert 0 < came.pop("MessageExpiryInterval") <= 60
    assert came == {key: value for key, value in given.items() if key != "MessageExpiryInterval"}


def test_a_client_is_never_sent_more_at_once_than_its_receive_maximum(connect: Connect, name: str) -> None:
    target, source = connect(connect={"ReceiveMaximum": 3}), connect()
    target.subscribe(name)
    source.publish_all([Message(name, b"%d" % number, 2) for number in range(200)])
    assert payloads(target.wait_for(200)) == [b"%d" % number for number in range(200)]


def test_a_message_above_a_clients_maximum_packet_size_is_not_sent_to_it(connect: Connect, name: str) -> None:
    target, source = connect(connect={"MaximumPacketSize": 1000}), connect()
    target.subscribe(name)
    source.publish_all([Message(name, b"a" * size, 1) for size in (10, 2000, 20)])
    target.wait_for(2)
    assert [len(payload) for payload in payloads(target.barrier())] == [10, 20]


def test_shared_subscriptions_are_refused_and_announced_as_missing(connect: Connect, name: str) -> None:
    client = connect()
    assert client.subscribe(f"$share/group/{name}").value == 0x9E
