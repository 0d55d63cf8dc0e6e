"""Bad input closes the connection it came on, and harms no other."""

from __future__ import annotations

from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Disconnect, Puback, Publish
from making.device import Device, turn
from making.house import House


async def test_what_a_client_sends_behind_its_disconnect_is_never_taken(house: House) -> None:
    good, bad = Device(house.broker), Device(house.broker)
    good.connect("good")
    bad.connect("bad")
    bad.send(Disconnect(), Publish("out/late", b"x", 1, packet_id=7))
    good.publish("out/fine", b"y", qos=1, packet_id=3)
    await turn()
    assert good.received_of(Puback) == [Puback(3)]
    assert house.journalled() == ["out/fine"]


async def test_what_stands_behind_a_fault_is_never_taken(house: House) -> None:
    good, bad = Device(house.broker), Device(house.broker)
    good.connect("good")
    bad.connect("bad")
    bad.send(b"\xf0\x00", encode(Publish("out/late", b"x", 1, packet_id=7), 5))
    good.publish("out/fine", b"y", qos=1, packet_id=3)
    await turn()
    assert good.received_of(Puback) == [Puback(3)]
    assert house.journalled() == ["out/fine"]
