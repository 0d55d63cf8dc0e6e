"""Connections and sessions: connect, resume, take over, keep alive, wills."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.clock import monotonic
from bridgehead.wire.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Will,
)
from bridgehead.wire.reason import Reason
from making.device import Device, turn
from making.house import House


def payloads(device: Device) -> list[bytes]:
    return [one.payload for one in device.received_of(Publish)]


async def test_a_client_without_an_id_gets_one(house: House) -> None:
    connack = Device(house.broker).connect("")
    assert str(connack.properties["assigned_client_identifier"]).startswith("auto-")


async def test_over_3_1_1_a_client_without_an_id_must_start_clean(house: House) -> None:
    device = Device(house.broker, version=4)
    assert device.connect("", clean_start=False).reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert device.transport.closed


async def test_a_ping_is_answered(house: House) -> None:
    device = Device(house.broker)
    device.connect("c")
    device.send(Pingreq())
    assert device.received() == [Pingresp()]


@pytest.mark.parametrize("version", [4, 5])
async def test_a_session_that_is_kept_is_found_again(house: House, version: int) -> None:
    keep = {"properties": {"session_expiry_interval": 100}} if version == 5 else {}
    first = Device(house.broker, version)
    assert not first.connect("c", clean_start=False, **keep).session_present
    first.subscribe("a/#")
    first.transport.lose()
    publisher = Device(house.broker)
    publisher.connect("p")
    publisher.publish("a/1", b"missed", qos=1)
    await turn()
    second = Device(house.broker, version)
    second.send(Connect(version, "c", clean_start=False, **keep))
    connack, publish = second.received()
    assert isinstance(connack, Connack)
    assert connack.session_present
    assert isinstance(publish, Publish)
    assert (publish.payload, publish.qos, publish.dup) == (b"missed", 1, False)


async def test_a_clean_start_forgets_the_session(house: House) -> None:
    first = Device(house.broker)
    first.connect("c", properties={"session_expiry_interval": 100})
    first.subscribe("a/#")
    first.transport.lose()
    second = Device(house.broker)
    assert not second.connect("c", clean_start=True).session_present
    second.publish("a/1", b"x")
    await turn()
    assert payloads(second) == []


async def test_a_session_without_expiry_ends_with_its_connection(house: House) -> None:
    device = Device(house.broker)
    device.connect("c")
    device.subscribe("a/#")
    device.transport.lose()
    assert house.broker.sessions == {}
    assert house.broker.connections == {}
    assert house.broker.by_client == {}


async def test_a_session_is_forgotten_when_its_time_is_over(house: House) -> None:
    device = Device(house.broker)
    device.connect("c", properties={"session_expiry_interval": 100})
    device.transport.lose()
    house.broker.sweep(monotonic() + 99)
    assert list(house.broker.sessions) == ["c"]
    house.broker.sweep(monotonic() + 101)
    assert house.broker.sessions == {}


async def test_a_client_that_comes_twice_takes_over(house: House) -> None:
    first, second = Device(house.broker), Device(house.broker)
    first.connect("c", properties={"session_expiry_interval": 100})
    first.subscribe("a/#")
    assert second.connect("c", clean_start=False).session_present
    assert first.received() == [Disconnect(Reason.SESSION_TAKEN_OVER)]
    assert first.transport.closed
    await turn()
    second.publish("a/1", b"x")
    await turn()
    assert payloads(second) == [b"x"]
    assert list(house.broker.by_client) == ["c"]


async def test_what_was_in_flight_to_the_old_connection_goes_to_the_new_one(house: House) -> None:
    first, publisher = Device(house.broker), Device(house.broker)
    first.connect("c", properties={"session_expiry_interval": 100})
    first.subscribe("a/#")
    publisher.connect("p")
    for i in range(3):
        publisher.publish("a/1", str(i).encode(), qos=i % 2 + 1, packet_id=i + 1)
        await turn()
    publishes = first.received_of(Publish)
    assert [one.payload for one in publishes] == [b"0", b"1", b"2"]
    first.send(Puback(publishes[0].packet_id), Pubrec(publishes[1].packet_id))
    assert first.received() == [Pubrel(publishes[1].packet_id)]
    second = Device(house.broker)
    second.send(Connect(5, "c", clean_start=False, properties={"session_expiry_interval": 100}))
    connack, pubrel, again = second.received()
    assert isinstance(connack, Connack)
    assert pubrel == Pubrel(publishes[1].packet_id)
    assert isinstance(again, Publish)
    assert (again.payload, again.dup, again.packet_id) == (b"2", True, publishes[2].packet_id)
    second.send(Pubcomp(publishes[1].packet_id), Puback(again.packet_id))
    assert house.broker.sessions["c"].outbox.depth == 0


async def test_a_resumed_client_may_take_fewer_at_once_than_before(house: House) -> None:
    first, publisher = Device(house.broker), Device(house.broker)
    keep = {"session_expiry_interval": 100}
    first.connect("c", properties=keep)
    first.subscribe("a/#")
    publisher.connect("p")
    for i in range(10):
        publisher.publish("a/1", str(i).encode(), qos=1, packet_id=i + 1)
    await turn()
    assert len(first.received_of(Publish)) == 10
    second = Device(house.broker)
    second.send(Connect(5, "c", clean_start=False, properties={**keep, "receive_maximum": 2}))
    seen = []
    while publishes := second.received_of(Publish):
        assert len(publishes) <= 2
        seen += [one.payload for one in publishes]
        second.send(*[Puback(one.packet_id) for one in publishes])
    assert seen == [str(i).encode() for i in range(10)]


async def test_a_silent_client_is_left_after_one_and_a_half_keep_alives(house: House) -> None:
    device = Device(house.broker)
    device.connect("c", keep_alive=10)
    now = monotonic()
    house.broker.sweep(now + 14)
    assert not device.transport.closed
    house.broker.sweep(now + 16)
    assert device.received() == [Disconnect(Reason.KEEP_ALIVE_TIMEOUT)]
    assert device.transport.closed


async def test_a_client_without_keep_alive_may_be_silent(house: House) -> None:
    device = Device(house.broker)
    device.connect("c", keep_alive=0)
    house.broker.sweep(monotonic() + 1e6)
    assert not device.transport.closed


async def test_a_peer_that_never_says_connect_is_left(house: House) -> None:
    device = Device(house.broker)
    house.broker.sweep(monotonic() + 9)
    assert not device.transport.closed
    house.broker.sweep(monotonic() + 11)
    assert device.transport.closed


async def test_a_client_that_takes_nothing_more_does_not_hold_its_session_for_ever(house: House) -> None:
    """A graceful close waits for the peer to take what was written: from a dead peer it would wait in vain."""
    device, publisher = Device(house.broker), Device(house.broker)
    device.connect("c", keep_alive=10, will=Will("gone", b"c"))
    device.subscribe("a/#")
    publisher.connect("p")
    publisher.subscribe("gone")
    device.transport.stuck = True
    publisher.publish("a/1", b"never taken")
    await turn()
    now = monotonic()
    for second in range(16, 28):
        assert not device.transport.lost
        house.broker.sweep(now + second)
        await turn()
    await turn()
    assert device.transport.lost
    assert payloads(publisher) == [b"c"]
    assert house.broker.sessions.keys() == {"p"}


async def test_a_will_is_published_when_its_client_is_gone_without_goodbye(house: House) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone", qos=1)
    device.connect("c", will=Will("gone", b"c", 1, properties={"user_property": [("k", "v")]}))
    device.transport.lose()
    await turn()
    [will] = watcher.received_of(Publish)
    assert (will.payload, will.qos, will.properties["user_property"]) == (b"c", 1, [("k", "v")])


async def test_a_client_that_says_goodbye_takes_its_will_along(house: House) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    device.connect("c", will=Will("gone", b"c"))
    device.send(Disconnect())
    await turn()
    assert payloads(watcher) == []


async def test_a_client_may_ask_for_its_will_when_it_says_goodbye(house: House) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    device.connect("c", will=Will("gone", b"c"))
    device.send(Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE))
    await turn()
    assert payloads(watcher) == [b"c"]


DELAYED = Will("gone", b"c", properties={"will_delay_interval": 30})
KEPT = {"session_expiry_interval": 100}


async def test_a_delayed_will_is_not_published_if_its_client_comes_back_in_time(house: House) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    device.connect("c", will=DELAYED, properties=KEPT)
    device.transport.lose()
    await turn()
    assert payloads(watcher) == []
    Device(house.broker).connect("c", clean_start=False, properties=KEPT)
    assert house.broker._wills == {}
    await turn()
    assert payloads(watcher) == []


async def test_a_delayed_will_is_published_at_once_when_its_session_ends(house: House) -> None:
    """[MQTT-3.1.3-9]: a new session of the same client is no continuation of the old one."""
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    device.connect("c", will=DELAYED, properties=KEPT)
    device.transport.lose()
    Device(house.broker).connect("c", clean_start=True)
    await turn()
    assert payloads(watcher) == [b"c"]


async def test_a_will_is_not_delayed_beyond_the_session(house: House) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    device.connect("c", will=DELAYED)  # its session ends with the connection
    device.transport.lose()
    await turn()
    assert payloads(watcher) == [b"c"]


async def test_a_delayed_will_is_published_after_its_delay(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher, device = Device(house.broker), Device(house.broker)
    watcher.connect("w")
    watcher.subscribe("gone")
    later: list[float] = []
    loop = asyncio.get_running_loop()
    real = loop.call_later

    def soon(delay: float, *call: object) -> asyncio.TimerHandle:
        later.append(delay)
        return real(0, *call)  # type: ignore[arg-type]

    device.connect("c", will=DELAYED, properties=KEPT)
    monkeypatch.setattr(loop, "call_later", soon)
    device.transport.lose()
    await turn()
    assert later == [30]
    assert payloads(watcher) == [b"c"]


async def test_a_broker_that_closes_says_so(house: House) -> None:
    device = Device(house.broker)
    device.connect("c")
    house.broker.close()
    assert device.received() == [Disconnect(Reason.SERVER_SHUTTING_DOWN)]
    assert device.transport.closed


async def test_a_client_cannot_keep_a_session_at_goodbye_that_was_to_end_with_the_connection(house: House) -> None:
    device = Device(house.broker)
    device.connect("c")
    device.send(Disconnect(properties={"session_expiry_interval": 5}))
    assert device.received() == [Disconnect(Reason.PROTOCOL_ERROR)]


async def test_a_client_may_shorten_its_session_at_goodbye(house: House) -> None:
    device = Device(house.broker)
    device.connect("c", properties=KEPT)
    device.send(Disconnect(properties={"session_expiry_interval": 0}))
    await turn()
    assert house.broker.sessions == {}
