"""When there is no room: nobody has the message, and its publisher is told or held back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.broker.connection import Connection
from bridgehead.clock import monotonic
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.freespace import FreeSpace
from bridgehead.wire.packets import Packet, Pingreq, Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe, Subscription, Will
from bridgehead.wire.reason import Reason
from making.crashing import Lives
from making.device import Device, turn
from making.house import FullHouse

FULL = Reason.QUOTA_EXCEEDED


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    lives = Lives(tmp_path)
    yield lives
    lives.close()


@pytest.fixture
async def houses() -> Any:
    built: list[FullHouse] = []

    def build(limit: int, **given: Any) -> FullHouse:
        built.append(FullHouse(limit, **given))
        return built[-1]

    yield build
    for house in built:
        house.broker.close()


def connected(house: FullHouse, name: str, version: int = 5, **given: Any) -> Device:
    device = Device(house.broker, version)
    device.connect(name, **given)
    return device


def messages(first: int, count: int, qos: int = 1, topic: str = "out/a") -> Iterator[Publish]:
    for number in range(first, first + count):
        yield Publish(topic, str(number).encode(), qos, packet_id=number if qos else 0)


def payloads(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in numbers]


async def test_the_first_that_fit_get_in_and_the_others_are_refused_in_order(houses: Any) -> None:
    house = houses(3)
    device = connected(house, "p")
    device.send(*messages(1, 3), *messages(4, 2, qos=2))
    await turn()
    assert device.received() == [Puback(1), Puback(2), Puback(3), Pubrec(4, FULL), Pubrec(5, FULL)]
    device.send(*messages(6, 1))
    await turn()
    assert device.received() == [Puback(6, FULL)]
    assert (house.leave(9), house.door.refused) == (payloads(1, 2, 3), 3)


async def test_what_the_pipeline_has_not_moved_yet_takes_room_as_well(houses: Any) -> None:
    house = houses(2)
    device = connected(house, "p")
    device.send(*messages(1, 1))
    await turn()
    house.move()
    device.send(*messages(2, 1))
    await turn()
    device.send(*messages(3, 1))
    await turn()
    assert device.received() == [Puback(1), Puback(2), Puback(3, FULL)]
    assert house.leave(1) == payloads(1)
    device.send(*messages(4, 2))
    await turn()
    assert device.received() == [Puback(4), Puback(5, FULL)]


HEAVIER = RouteRules("out", user_properties=(("k", "v" * 8000),))


@pytest.mark.parametrize("at_once", [40, 5, 1])
@pytest.mark.parametrize("moving", ["passing the log", "through the log", "waiting in the log"])
async def test_a_message_takes_the_room_of_what_its_route_makes_of_it(houses: Any, at_once: int, moving: str) -> None:
    house = houses(100, max_bytes=64 << 10, rules=HEAVIER)
    if moving == "passing the log":
        house.door.pass_through = house.inline.pass_through
    device = connected(house, "p")
    for first in range(1, 41, at_once):
        device.send(*messages(first, at_once))
        await turn()
        if moving == "through the log":
            house.move()
    assert device.received() == [Puback(number) if number <= 9 else Puback(number, FULL) for number in range(1, 41)]
    assert house.leave(4) == payloads(1, 2, 3, 4)
    device.send(*messages(41, 20))
    await turn()
    assert [answer.reason for answer in device.received()] == [0] * 4 + [FULL] * 16


async def test_large_messages_of_another_route_in_the_same_log_take_no_room(houses: Any) -> None:
    house = houses(100, max_bytes=64 << 10, rules=HEAVIER)
    house.doors.append(Door(DoorRule(route="else", bridge="b", filters=("elsewhere",)), house.log))
    house.broker.distributor.routes_changed()
    device = connected(house, "p")
    device.send(Publish("elsewhere", bytes(300_000), 1, packet_id=1), *messages(2, 5))
    await turn()
    device.send(*messages(7, 10))
    await turn()
    assert [answer.reason for answer in device.received()] == [0] * 10 + [FULL] * 6


async def test_a_refused_qos_2_message_was_never_received(houses: Any) -> None:
    house = houses(1)
    device = connected(house, "p")
    device.send(*messages(1, 2, qos=2))
    await turn()
    assert device.received() == [Pubrec(1), Pubrec(2, FULL)]
    device.send(Pubrel(1))
    house.leave(1)
    device.send(Publish("out/a", b"2", 2, dup=True, packet_id=2))
    await turn()
    assert device.received() == [Pubcomp(1), Pubrec(2)]
    assert house.leave(9) == payloads(2)


async def test_a_message_that_one_route_refuses_reaches_nobody(houses: Any) -> None:
    house = houses(1)
    subscriber, device = connected(house, "s"), connected(house, "p")
    subscriber.subscribe("out/both/#", qos=1)
    device.send(*messages(1, 1))
    device.send(Publish("out/both/x", b"2", 1, retain=True, packet_id=2))
    device.send(Publish("elsewhere", b"3", 1, packet_id=3))
    await turn()
    assert device.received() == [Puback(1), Puback(2, FULL), Puback(3)]
    assert subscriber.received() == []
    assert (house.other.received, len(house.broker.distributor.retained)) == (0, 0)


async def test_what_one_route_refuses_takes_no_room_of_another(houses: Any) -> None:
    house = houses(2)
    house.other.room = Room(house.other_outbox, house.journal)
    house.other_outbox.max_rows = 1
    device = connected(house, "p")
    device.send(*messages(1, 1, topic="out/both/1"), *messages(2, 1, topic="out/both/2"), *messages(3, 2))
    await turn()
    assert device.received() == [Puback(1), Puback(2, FULL), Puback(3), Puback(4, FULL)]


async def test_qos_0_without_room_is_dropped_and_counted(houses: Any) -> None:
    house = houses(2)
    device = connected(house, "p")
    device.send(*messages(1, 5, qos=0))
    await turn()
    assert house.leave(9) == payloads(1, 2)
    assert (house.door.received, house.door.dropped, house.door.refused) == (5, {"queue-full": 3}, 0)


async def test_3_1_1_is_held_back_and_goes_on_in_order_when_there_is_room(houses: Any) -> None:
    house = houses(2)
    device, other = connected(house, "p", version=4), connected(house, "q", version=4)
    device.send(*messages(1, 5), *messages(6, 1, topic="elsewhere"))
    await turn()
    assert device.received() == [Puback(1), Puback(2)]
    assert not device.transport.reading
    other.send(*messages(1, 1, topic="elsewhere"))
    await turn()
    assert other.received() == [Puback(1)], "others flow"
    assert house.leave(2) == payloads(1, 2)
    await turn()
    assert device.received() == [Puback(3), Puback(4)]
    assert not device.transport.reading
    assert house.leave(1) == payloads(3)
    await turn()
    assert device.received() == [Puback(5), Puback(6)]
    assert device.transport.reading
    assert house.leave(9) == payloads(4, 5)
    assert (house.door.received, house.door.dropped, house.door.refused) == (5, {}, 0)


async def test_a_held_client_is_not_silent(houses: Any) -> None:
    house = houses(1)
    device = connected(house, "p", version=4, keep_alive=1)
    device.send(*messages(1, 2))
    await turn()
    house.broker.sweep(monotonic() + 100)
    assert not device.connection.closing


async def test_held_qos_2_is_taken_once_and_its_release_waits_behind(houses: Any) -> None:
    house = houses(1)
    device = connected(house, "p", version=4)
    device.send(*messages(1, 1, qos=2), Pubrel(1), *messages(2, 2, qos=2), Pubrel(9))
    await turn()
    assert device.received() == [Pubrec(1), Pubcomp(1)]
    house.leave(1)
    await turn()
    assert device.received() == [Pubrec(2)]
    house.leave(1)
    await turn()
    assert device.received() == [Pubrec(3), Pubcomp(9)]
    device.send(Publish("out/a", b"3", 2, dup=True, packet_id=3))
    await turn()
    assert device.received() == [Pubrec(3)]
    assert house.leave(9) == payloads(3)


async def test_what_follows_in_the_same_read_waits_behind_what_is_held(houses: Any) -> None:
    house = houses(1)
    device = connected(house, "p", version=4)
    packets: list[Packet] = [*messages(1, 2), Pingreq(), *messages(3, 1), Subscribe(4, [Subscription("s", qos=0)])]
    device.send(*packets, *messages(5, 1), *messages(6, 1, qos=0))
    await turn()
    assert len(device.received()) == 3, "PUBACK, PINGRESP, SUBACK"
    for number in (1, 2, 3, 5):
        assert house.leave(1) == payloads(number)
        await turn()
    assert device.received() == [Puback(2), Puback(3), Puback(5)]
    assert house.door.dropped == {"queue-full": 1}, "QoS 0 waits for those in front of it, not for room"


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_held_client_that_goes_away_brings_its_messages_again(houses: Any, qos: int) -> None:
    house = houses(1)
    device = connected(house, "p", version=4, clean_start=False)
    device.send(*messages(1, 2, qos=qos), *messages(9, 1, qos=0))
    await turn()
    again = connected(house, "p", version=4, clean_start=False)
    again.send(Publish("out/a", b"2", qos, dup=True, packet_id=2))
    await turn()
    assert again.received() == []
    house.leave(1)
    await turn()
    assert again.received() == [Puback(2) if qos == 1 else Pubrec(2)]
    assert house.leave(9) == payloads(2)
    assert (len(house.broker.doorkeeper), house.broker.doorkeeper.lost) == (0, 1)


async def test_who_is_served_puts_no_id_on_the_disk_of_a_message_that_is_still_gathered(lives: Lives, houses: Any) -> None:
    engine = lives.start()
    house = houses(1, engine=engine)
    held, other = (connected(house, name, version=4, clean_start=False) for name in "po")
    held.send(*messages(1, 2))
    await turn()
    engine.between_syncs = lambda callback: None  # type: ignore[method-assign]  # a sync runs, and turns wait for its end
    other.send(*messages(3, 1, qos=2))
    await turn()
    assert house.leave(1) == payloads(1)
    await turn()
    assert (held.received(), other.received()) == ([Puback(1), Puback(2)], []), "who waited gets in, and then there is no room"
    house = houses(9, engine=lives.crash())
    other = connected(house, "o", version=4, clean_start=False)
    other.send(Publish("out/a", b"3", 2, dup=True, packet_id=3))
    await turn()
    assert (other.received(), house.leave(9)) == ([Pubrec(3)], payloads(2, 3))


async def test_who_waits_longest_is_served_first(houses: Any) -> None:
    house = houses(1)
    connected(house, "first").send(*messages(1, 1))
    await turn()
    for at in range(2, 5):
        connected(house, f"held-{at}", version=4).send(*messages(at, 1))
        await turn()
    late = connected(house, "late")
    for at in range(1, 5):
        assert house.leave(1) == payloads(at)
        late.send(*messages(10 + at, 1))
        await turn()
    assert house.leave(9) == payloads(14), "and a newcomer only when nobody waits"


async def test_a_will_without_room_is_dropped_and_counted(houses: Any) -> None:
    house = houses(1)
    connected(house, "p").send(*messages(1, 1))
    device = connected(house, "w", will=Will("out/a", b"2", 1))
    device.transport.lose()
    await turn()
    assert house.door.dropped == {"queue-full": 1}


async def test_bytes_are_room_as_well(houses: Any) -> None:
    house = houses(100, max_bytes=3000)
    device = connected(house, "p")
    device.send(*(Publish("out/a", bytes(1000), 1, packet_id=at) for at in range(1, 6)))
    await turn()
    answers = device.received_of(Puback)
    assert [answer.reason == FULL for answer in answers] == [False, False, False, True, True]


class Disk:
    def __init__(self) -> None:
        self.free = 1000
        self.space = FreeSpace(lambda: self.free, 160)


async def test_below_the_free_space_only_qos_0_gets_in(houses: Any) -> None:
    disk = Disk()
    house = houses(100, space=disk.space)
    disk.space.on_room = house.broker.room_again
    new, old = connected(house, "n"), connected(house, "o", version=4)
    disk.free = 159
    disk.space.look()
    new.send(*messages(1, 1), *messages(2, 1, qos=0), *messages(3, 1, qos=2, topic="elsewhere"))
    old.send(*messages(4, 1, qos=0), *messages(5, 1))
    await turn()
    assert new.received() == [Puback(1, FULL), Pubrec(3, FULL)]
    assert (house.leave(9), old.received(), disk.space.refused) == (payloads(2, 4), [], 2)
    disk.free = 169
    disk.space.look()
    await turn()
    assert old.received() == [], "a little more than the bound is needed to go on"
    disk.free = 170
    disk.space.look()
    await turn()
    assert (old.received(), house.leave(9)) == ([Puback(5)], payloads(5))


async def test_a_client_that_ends_while_others_are_served_is_left_out(houses: Any) -> None:
    house = houses(1)
    connected(house, "p").send(*messages(1, 1))
    await turn()
    held = connected(house, "held", version=4)
    held.send(*messages(2, 1))
    await turn()
    connection: Connection = held.connection
    held.transport.lose()
    assert connection not in house.broker.doorkeeper
    assert house.leave(9) == payloads(1)
    await turn()
    assert house.leave(9) == []
