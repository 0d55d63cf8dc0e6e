"""An acknowledgement leaves when the disk has what it promises, and not before."""

from __future__ import annotations

import pytest

from bridgehead.wire.packets import Puback, Publish, Pubrec
from making.device import Device, turn
from making.house import House
from making.slow import SlowEngine


@pytest.fixture
async def engine() -> SlowEngine:
    return SlowEngine()


@pytest.fixture
async def house(engine: SlowEngine) -> House:
    return House(engine=engine)


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback(1)), (2, Pubrec(1))])
async def test_no_acknowledgement_leaves_before_the_sync(
    house: House, engine: SlowEngine, qos: int, answer: Puback | Pubrec
) -> None:
    device = Device(house.broker)
    device.connect("d")
    device.publish("out/a", b"x", qos=qos)
    await turn()
    assert device.received() == []
    engine.sync()
    assert device.received() == [answer]
    house.broker.close()


async def test_readers_see_a_message_only_after_its_own_sync(house: House, engine: SlowEngine) -> None:
    device = Device(house.broker)
    device.connect("d")
    device.publish("out/a", b"x", qos=1, packet_id=1)
    await turn()
    first = len(engine.waiting)
    device.publish("out/b", b"x", qos=1, packet_id=2)
    await turn()
    assert house.journalled() == []
    engine.sync(first)
    assert house.journalled() == ["out/a"], "what was appended meanwhile is not safe yet"
    assert device.received() == [Puback(1)]
    engine.sync()
    assert house.journalled() == ["out/a", "out/b"]
    assert device.received() == [Puback(2)]
    house.broker.close()


async def test_a_message_whose_sender_has_gone_before_the_sync_is_kept(house: House, engine: SlowEngine) -> None:
    device = Device(house.broker)
    device.connect("d")
    device.send(Publish("out/a", b"x", 1, packet_id=1))
    await turn()
    device.transport.lose(ConnectionResetError())
    engine.sync()
    assert house.journalled() == ["out/a"]
    house.broker.close()
