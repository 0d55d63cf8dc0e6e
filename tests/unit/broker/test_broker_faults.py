"""Bad input closes the connection it came on, and harms no other."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Disconnect, Puback, Publish, Pubrec
from bridgehead.wire.reason import Reason
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


async def test_a_turn_that_fails_ends_its_connections_so_that_their_messages_come_again(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of our own: nothing is acknowledged that is not kept, and a QoS 2 message is not taken for a repetition."""
    device = Device(house.broker)
    device.connect("c", properties={"session_expiry_interval": 100})
    with monkeypatch.context() as broken:
        broken.setattr(house.broker.distributor, "distribute", lambda *_: 1 / 0)
        device.send(Publish("out/a", b"x", 1, packet_id=1), Publish("out/b", b"y", 2, packet_id=2))
        await turn()
    assert device.received() == [Disconnect(Reason.UNSPECIFIED_ERROR)]
    assert "ZeroDivisionError" in caplog.text
    again = Device(house.broker)
    again.connect("c", clean_start=False, properties={"session_expiry_interval": 100})
    again.send(Publish("out/a", b"x", 1, dup=True, packet_id=1), Publish("out/b", b"y", 2, dup=True, packet_id=2))
    await turn()
    assert again.received() == [Puback(1), Pubrec(2)]
    assert house.journalled() == ["out/a", "out/b"]


async def test_a_fault_in_what_acknowledgements_change_costs_no_other_client_its_messages(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = Device(house.broker), Device(house.broker)
    good.connect("good")
    bad.connect("bad")
    monkeypatch.setattr(house.broker, "client_acked", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # the event loop ends a connection that raises
        bad.send(Puback(1), Publish("out/bad", b"x", 1, packet_id=7))
    good.publish("out/fine", b"y", qos=1, packet_id=3)
    await turn()
    assert good.received() == [Puback(3)]
    assert house.journalled() == ["out/bad", "out/fine"]


async def test_a_turn_that_fails_half_way_leaves_a_journal_that_can_be_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(house.broker)
    device.connect("c")
    real = house.broker.distributor.distribute

    def half_way(*given: Any) -> None:
        real(*given)
        raise ZeroDivisionError

    monkeypatch.setattr(house.broker.distributor, "distribute", half_way)
    device.publish("out/a", b"x", qos=1)
    await turn()
    assert device.received() == [Disconnect(Reason.UNSPECIFIED_ERROR)]
    assert house.journalled() == ["out/a"]
