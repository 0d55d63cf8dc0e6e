"""What becomes of a publish: subscribers, routes, retained messages, acknowledgements."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.broker.outgoing import CLIENT_WINDOW
from bridgehead.storage.engine import Changes
from bridgehead.wire.packets import (
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from bridgehead.wire.reason import Reason
from making.device import Device, turn
from making.house import House


def connected(house: House, name: str, version: int = 5, **given: object) -> Device:
    device = Device(house.broker, version)
    device.connect(name, **given)
    return device


@pytest.mark.parametrize("publish_qos", [0, 1, 2])
@pytest.mark.parametrize("subscribe_qos", [0, 1, 2])
async def test_a_message_comes_at_the_lower_of_the_two_qos(house: House, publish_qos: int, subscribe_qos: int) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p", version=4)
    subscriber.subscribe("a/+", qos=subscribe_qos)
    publisher.publish("a/b", b"x", qos=publish_qos, packet_id=7)
    await turn()
    [publish] = subscriber.received_of(Publish)
    assert (publish.topic, publish.payload, publish.qos) == ("a/b", b"x", min(publish_qos, subscribe_qos))
    due = {0: [], 1: [Puback(7)], 2: [Pubrec(7)]}
    assert publisher.received() == due[publish_qos]


async def test_messages_of_one_client_keep_their_order(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a", qos=0)
    for i in range(50):
        publisher.publish("a", str(i).encode(), qos=i % 3, packet_id=i + 1)
    await turn()
    assert [int(one.payload) for one in subscriber.received_of(Publish)] == list(range(50))


async def test_acknowledgements_leave_in_the_order_of_the_messages(house: House) -> None:
    publisher = connected(house, "p")
    publisher.send(*[Publish("a", b"", 1 + i % 2, packet_id=100 - i) for i in range(6)], Pubrel(99))
    await turn()
    expected = [Puback(100), Pubrec(99), Puback(98), Pubrec(97), Puback(96), Pubrec(95), Pubcomp(99)]
    assert publisher.received() == expected


async def test_a_qos_2_message_that_comes_again_is_delivered_once(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a")
    publisher.publish("a", b"x", qos=2, packet_id=5)
    publisher.publish("a", b"x", qos=2, packet_id=5, dup=True)
    publisher.send(Pubrel(5))
    await turn()
    assert publisher.received() == [Pubrec(5), Pubrec(5), Pubcomp(5)]
    assert len(subscriber.received_of(Publish)) == 1


async def test_overlapping_subscriptions_of_one_client_bring_one_copy_at_the_highest_qos(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a/#", qos=0, identifier=3)
    subscriber.subscribe("a/b", qos=1, identifier=4)
    publisher.publish("a/b", b"x", qos=2)
    await turn()
    [publish] = subscriber.received_of(Publish)
    assert publish.qos == 1
    assert sorted(publish.properties["subscription_identifier"]) == [3, 4]  # type: ignore[type-var]


async def test_each_message_carries_the_identifiers_of_its_own_subscriptions(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a", identifier=3)
    subscriber.subscribe("b", identifier=4)
    subscriber.subscribe("c")
    publisher.send(*[Publish(topic, topic.encode()) for topic in "abcabc"])
    await turn()
    found = {(one.topic, tuple(one.properties.get("subscription_identifier", ()))) for one in subscriber.received_of(Publish)}
    assert found == {("a", (3,)), ("b", (4,)), ("c", ())}


async def test_a_bridge_of_3_1_1_gets_nothing_of_its_own_and_sees_what_is_retained(house: House) -> None:
    bridge, other = connected(house, "bridge", version=4, bridge_bit=True), connected(house, "other", version=4)
    for each in (bridge, other):
        each.subscribe("a")
    bridge.publish("a", b"own", retain=True)
    other.publish("a", b"new", retain=True)
    await turn()
    assert [(one.payload, one.retain) for one in bridge.received_of(Publish)] == [(b"new", True)]
    assert [(one.payload, one.retain) for one in other.received_of(Publish)] == [(b"own", False), (b"new", False)]


async def test_no_local_keeps_a_clients_own_messages_from_it(house: House) -> None:
    device, other = connected(house, "d"), connected(house, "o")
    device.subscribe("a", no_local=True)
    device.publish("a", b"mine")
    other.publish("a", b"theirs")
    await turn()
    assert [one.payload for one in device.received_of(Publish)] == [b"theirs"]


async def test_a_subscription_that_was_given_up_brings_nothing(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a", "b")
    subscriber.send(Unsubscribe(2, ["a", "zzz"]))
    assert subscriber.received() == [Unsuback(2, [Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED])]
    publisher.publish("a", b"x")
    publisher.publish("b", b"y")
    await turn()
    assert [one.payload for one in subscriber.received_of(Publish)] == [b"y"]


async def test_a_shared_subscription_is_refused(house: House) -> None:
    device = connected(house, "d")
    device.send(Subscribe(1, [Subscription("$share/g/a", 1), Subscription("a", 1)]))
    assert device.received() == [Suback(1, [Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, Reason.GRANTED_QOS_1])]


async def test_a_new_subscription_gets_what_was_retained(house: House) -> None:
    publisher = connected(house, "p")
    publisher.publish("a/1", b"one", qos=1, retain=True)
    publisher.publish("a/2", b"two", retain=True)
    publisher.publish("b/1", b"no", retain=True)
    publisher.publish("a/1", b"newer", qos=2, packet_id=2, retain=True)
    await turn()
    found = connected(house, "s").subscribe("a/+", qos=1)
    assert sorted((p.topic, p.payload, p.qos, p.retain) for p in found if isinstance(p, Publish)) == [
        ("a/1", b"newer", 1, True),
        ("a/2", b"two", 0, True),
    ]


async def test_a_retained_message_is_deleted_by_an_empty_one(house: House) -> None:
    publisher = connected(house, "p")
    publisher.publish("a", b"one", retain=True)
    publisher.publish("a", b"", retain=True)
    await turn()
    assert connected(house, "s").subscribe("#") == []
    assert len(house.broker.distributor.retained) == 0


async def test_a_subscriber_that_is_there_gets_a_retained_message_as_a_live_one(house: House) -> None:
    subscriber, keeper, publisher = connected(house, "s"), connected(house, "k"), connected(house, "p")
    subscriber.subscribe("a")
    keeper.subscribe("a", retain_as_published=True)
    publisher.publish("a", b"x", retain=True)
    await turn()
    assert [one.retain for one in subscriber.received_of(Publish)] == [False]
    assert [one.retain for one in keeper.received_of(Publish)] == [True]


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
async def test_retain_handling_says_when_retained_messages_come(
    house: House, handling: int, first: int, second: int
) -> None:
    publisher, subscriber = connected(house, "p"), connected(house, "s")
    publisher.publish("a", b"x", retain=True)
    await turn()
    assert len(subscriber.subscribe("a", retain_handling=handling)) == first
    assert len(subscriber.subscribe("a", retain_handling=handling)) == second


async def test_many_retained_messages_come_all_and_within_the_window(house: House) -> None:
    publisher, subscriber = connected(house, "p"), connected(house, "s", properties={"receive_maximum": 7})
    publisher.send(*[Publish(f"a/{i}", str(i).encode(), 1, retain=True, packet_id=i + 1) for i in range(50)])
    await turn()
    found = subscriber.subscribe("a/#", qos=1)
    seen: list[bytes] = []
    while found:
        assert len(found) <= 7
        seen += [one.payload for one in found if isinstance(one, Publish)]
        subscriber.send(*[Puback(one.packet_id) for one in found if isinstance(one, Publish)])
        found = subscriber.received()
    assert sorted(map(int, seen)) == list(range(50))


async def test_a_client_gets_no_more_at_once_than_it_allows(house: House) -> None:
    subscriber, publisher = connected(house, "s", properties={"receive_maximum": 2}), connected(house, "p")
    subscriber.subscribe("a")
    publisher.send(*[Publish("a", str(i).encode(), 1, packet_id=i + 1) for i in range(5)])
    await turn()
    first = subscriber.received_of(Publish)
    assert [one.payload for one in first] == [b"0", b"1"]
    subscriber.send(Puback(first[0].packet_id))
    assert [one.payload for one in subscriber.received_of(Publish)] == [b"2"]


async def test_a_slow_client_gets_no_more_than_its_socket_takes_and_goes_on_later(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a", qos=0)
    subscriber.transport.stuck = True
    for _ in range(10):
        publisher.publish("a", bytes(500_000))
        await turn()
    assert len(subscriber.transport.buffer) < 3_000_000
    for _ in range(10):
        subscriber.transport.drain()
    assert len(subscriber.received_of(Publish)) == 10


async def test_a_message_too_large_for_a_client_is_dropped_and_counted(house: House) -> None:
    subscriber, publisher = connected(house, "s", properties={"maximum_packet_size": 100}), connected(house, "p")
    subscriber.subscribe("a")
    publisher.publish("a", bytes(200), qos=1)
    publisher.publish("a", b"small", qos=1, packet_id=2)
    await turn()
    assert [one.payload for one in subscriber.received_of(Publish)] == [b"small"]
    assert house.broker.sessions["s"].outbox.dropped == {"too-large": 1}


async def test_while_a_client_is_away_only_what_it_was_promised_waits(house: House) -> None:
    subscriber, publisher = connected(house, "s", properties={"session_expiry_interval": 100}), connected(house, "p")
    subscriber.subscribe("a")
    subscriber.transport.lose()
    publisher.send(*[Publish("a", str(i).encode(), i % 2, packet_id=i if i % 2 else 0) for i in range(6)])
    await turn()
    outbox = house.broker.sessions["s"].outbox
    assert (outbox.depth, outbox.dropped) == (3, {"offline-qos0": 3})


async def test_the_queue_of_a_client_is_bounded_also_in_what_is_kept_beside_it() -> None:
    house = House(max_rows=4)
    subscriber, publisher = connected(house, "s", properties={"session_expiry_interval": 100}), connected(house, "p")
    subscriber.subscribe("a", identifier=1)
    subscriber.subscribe("b", identifier=2)
    subscriber.transport.lose()
    for i in range(50):
        publisher.publish("ab"[i % 2], b"", qos=1, packet_id=i + 1)
        await turn()
    session = house.broker.sessions["s"]
    assert session.outbox.dropped == {"queue-full": 46}
    assert len(session._row_identifiers) <= 6
    house.broker.close()


async def test_routes_get_what_they_want_and_count_what_they_exclude(house: House) -> None:
    publisher = connected(house, "p")
    publisher.send(Publish("out/a"), Publish("out/secret/b"), Publish("elsewhere"), Publish("out/c", b"", 1, packet_id=1))
    await turn()
    assert house.journalled() == ["out/a", "out/c"]
    assert (house.door.received, house.door.dropped) == (3, {"excluded": 1})
    [(_, batch)] = house.log.read(0, 2)
    assert batch.column("client_id").to_pylist() == ["p", "p"]
    assert batch.column("qos").to_pylist() == [0, 1]


async def test_a_route_gets_its_messages_in_their_order_whoever_else_listens(house: House) -> None:
    """Subscribers to some of its topics must not change the order in which a route sees all of them."""
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("out/b")
    publisher.send(*[Publish(f"out/{topic}") for topic in "abcabcba"])
    await turn()
    assert house.journalled() == [f"out/{topic}" for topic in "abcabcba"]


async def test_one_turn_of_many_clients_is_one_batch(house: House) -> None:
    publishers = [connected(house, f"p{i}") for i in range(4)]
    for i, publisher in enumerate(publishers):
        publisher.publish(f"out/{i}", qos=1)
    await turn()
    [(_, batch)] = house.log.read(0, 4)
    assert batch.column("client_id").to_pylist() == ["p0", "p1", "p2", "p3"]
    assert all(publisher.received() == [Puback(1)] for publisher in publishers)


async def test_a_full_journal_stops_the_reading_and_room_starts_it_again() -> None:
    house = House(max_bytes=100)
    publisher, quiet = connected(house, "p"), connected(house, "q")
    publisher.publish("out/a", bytes(200), qos=1)
    await turn()
    assert publisher.received() == [Puback(1)], "what has come is kept and acknowledged"
    assert not publisher.transport.reading
    assert quiet.transport.reading
    house.broker.room_again()
    assert not publisher.transport.reading
    changes = Changes()
    house.log.consume(changes, house.log.end)
    house.engine.write(changes)
    house.broker.room_again()
    assert publisher.transport.reading
    house.broker.close()


async def test_a_connection_that_is_not_read_from_is_not_silent() -> None:
    house = House(max_bytes=100)
    publisher = connected(house, "p", keep_alive=10)
    publisher.publish("out/a", bytes(200), qos=1)
    await turn()
    house.broker.sweep(asyncio.get_running_loop().time() + 1000)
    assert not publisher.transport.closed
    publisher.transport.lose()
    assert house.broker._held == set()
    house.broker.close()


async def test_what_came_before_a_cut_is_kept(house: House) -> None:
    publisher = connected(house, "p")
    publisher.publish("out/a", b"x", qos=1)
    publisher.transport.lose(ConnectionResetError())
    assert house.journalled() == ["out/a"]


async def test_what_came_before_a_goodbye_in_the_same_read_is_kept_and_acknowledged(house: House) -> None:
    publisher = connected(house, "p")
    publisher.send(Publish("out/a", b"x", 1, packet_id=4), Disconnect())
    assert publisher.received() == [Puback(4)]
    assert house.journalled() == ["out/a"]


async def test_a_client_that_refuses_a_message_has_had_it(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a")
    publisher.publish("a", b"x", qos=1)
    await turn()
    [publish] = subscriber.received_of(Publish)
    subscriber.send(Puback(publish.packet_id, Reason.UNSPECIFIED_ERROR))
    outbox = house.broker.sessions["s"].outbox
    assert (outbox.depth, outbox.dropped) == (0, {"refused": 1})


async def test_no_more_than_a_window_is_in_flight_to_any_client(house: House) -> None:
    subscriber, publisher = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("a")
    publisher.send(*[Publish("a", b"", 1, packet_id=i + 1) for i in range(CLIENT_WINDOW + 10)])
    await turn()
    assert len(subscriber.received_of(Publish)) == CLIENT_WINDOW
