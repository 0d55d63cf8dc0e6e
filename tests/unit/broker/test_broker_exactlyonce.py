"""QoS 2 towards a client that keeps its session, through crashes of the node at exact moments: nothing comes twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.broker.broker import Broker
from bridgehead.storage.engine import HALF_WAY, Changes
from bridgehead.wire.packets import Connect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from bridgehead.wire.reason import Reason
from making.device import Device
from making.house import House
from making.power import PowerEngine
from making.rows import wire_rows
from making.site import SESSION

KEPT: dict[int, dict[str, Any]] = {5: SESSION, 4: {"clean_start": False}}
every_version = pytest.mark.parametrize("version", [5, 4])


class Home:
    """A node on a disk in the test's hand, and one client of it."""

    def __init__(self) -> None:
        self.engine = PowerEngine()
        self._brokers: list[Broker] = []
        self.open()

    def open(self) -> None:
        self.house = House(engine=self.engine)
        self._brokers.append(self.house.broker)

    def crash(self, lose: int = 0) -> None:
        self.engine = self.engine.crash(lose)
        self.engine.automatic = True
        self.open()

    def come(self, version: int = 5, **given: Any) -> tuple[Device, list[Packet]]:
        """The client, and what it gets behind CONNACK."""
        device = Device(self.house.broker, version)
        device.send(Connect(protocol_level=version, client_id="d", **(KEPT[version] | given)))
        return device, device.received()[1:]

    def subscriber(self, version: int = 5, **given: Any) -> Device:
        device, _ = self.come(version, **given)
        device.subscribe("a")
        return device

    def publish(self, *levels: int, first: int = 0, **given: Any) -> None:
        """Messages numbered from the first, of these levels."""
        rows = [{"topic": "a", "payload": b"%d" % n, "qos": qos, **given} for n, qos in enumerate(levels, first)]
        self.house.broker.publish(wire_rows(*rows), "someone")

    @property
    def ids(self) -> list[tuple[str, ...]]:
        """Names of pages on the disk."""
        return [name for name, _ in self.engine.states(("ids",)) if len(name) > 3]

    def close(self) -> None:
        for broker in self._brokers:
            broker.close()


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    home = Home()
    yield home
    home.close()


def told(packets: list[Packet]) -> list[Any]:
    """(number, packet id, dup) of each PUBLISH, and the others as they are."""
    return [(int(one.payload), one.packet_id, one.dup) if isinstance(one, Publish) else one for one in packets]


def identified(packets: list[Packet]) -> list[tuple[str, list[int]]]:
    found = [packet for packet in packets if isinstance(packet, Publish)]
    return [(one.topic, sorted(one.properties["subscription_identifier"])) for one in found]  # type: ignore[arg-type]


async def test_no_byte_of_a_qos_2_message_leaves_before_its_id_is_safe(home: Home) -> None:
    device = home.subscriber()
    home.engine.automatic = False
    home.publish(2, 0, 1)
    home.engine.sync()  # the rows are safe, and go on their way
    assert device.received() == []
    home.engine.sync()
    assert told(device.received()) == [(0, 1, False), (1, 0, False), (2, 2, False)]


async def test_a_kept_session_without_qos_2_waits_only_for_its_rows_and_writes_no_ids(home: Home) -> None:
    device = home.subscriber()
    home.engine.automatic = False
    home.publish(1, 0)
    home.engine.sync()
    assert told(device.received()) == [(0, 1, False), (1, 0, False)]
    assert home.ids == []


async def test_a_session_that_ends_with_its_connection_never_waits(home: Home) -> None:
    device = home.subscriber(clean_start=True, properties={})
    home.engine.automatic = False
    home.publish(2)
    assert told(device.received()) == [(0, 1, False)]
    device.send(Pubrec(1))
    assert device.received() == [Pubrel(1)]
    assert list(home.engine.states(("ids",))) == []


@every_version
async def test_after_a_crash_before_the_id_was_safe_the_message_is_new(home: Home, version: int) -> None:
    device = home.subscriber(version)
    home.engine.automatic = False
    home.publish(2)
    home.engine.sync()
    assert device.received() == []
    home.crash(lose=1)
    assert told(home.come(version)[1]) == [(0, 1, False)]


@every_version
async def test_after_a_crash_behind_publish_the_same_id_comes_again_with_dup(home: Home, version: int) -> None:
    device = home.subscriber(version)
    home.publish(2, 2, 2)
    assert len(device.received()) == 3
    home.crash()
    device, came = home.come(version)
    assert told(came) == [(0, 1, True), (1, 2, True), (2, 3, True)]
    home.publish(2, first=3)
    assert told(device.received()) == [(3, 4, False)]


async def test_pubrec_is_recorded_before_pubrel_leaves(home: Home) -> None:
    device = home.subscriber()
    home.publish(2)
    device.received()
    home.engine.automatic = False
    device.send(Pubrec(1))
    assert device.received() == []
    home.engine.sync()
    assert device.received() == [Pubrel(1)]


async def test_after_a_crash_before_pubrec_was_safe_the_message_comes_again(home: Home) -> None:
    device = home.subscriber()
    home.publish(2)
    device.received()
    home.engine.automatic = False
    device.send(Pubrec(1))
    home.crash(lose=1)
    assert told(home.come()[1]) == [(0, 1, True)]


@every_version
async def test_after_a_crash_behind_pubrec_only_pubrel_comes_and_it_comes_first(home: Home, version: int) -> None:
    device = home.subscriber(version)
    home.publish(2, 2, 1, 2)
    device.received()
    device.send(Pubrec(1), Pubrec(4))
    device.received()
    home.crash()
    device, came = home.come(version)
    assert told(came) == [Pubrel(1), Pubrel(4), (1, 2, True), (2, 5, False)], "rows of QoS 1 keep their place"
    device.send(Pubcomp(1), Pubcomp(4), Puback(5), Pubrec(2))
    assert device.received() == [Pubrel(2)]
    device.send(Pubcomp(2))
    assert home.house.broker.sessions["d"].outbox.depth == 0


@pytest.mark.parametrize("lost", [0, 1], ids=["done", "not-done"])
async def test_after_a_crash_behind_pubcomp_the_id_is_settled_again_and_nothing_comes_twice(home: Home, lost: int) -> None:
    device = home.subscriber()
    home.publish(2)
    device.send(Pubrec(1))
    home.engine.automatic = False
    device.send(Pubcomp(1))
    home.crash(lose=lost)
    device, came = home.come()
    assert came == [Pubrel(1)]
    device.send(Pubcomp(1, Reason.PACKET_IDENTIFIER_NOT_FOUND))
    home.publish(2, first=1)
    assert told(device.received()) == [(1, 2, False)]


async def test_what_the_next_life_has_not_sent_again_is_known_to_the_one_after_it(home: Home) -> None:
    home.subscriber()
    home.publish(2, 2)
    home.crash()
    home.crash()
    assert told(home.come()[1]) == [(0, 1, True), (1, 2, True)]


async def test_a_frame_that_was_about_to_leave_goes_out_on_the_next_connection_once(home: Home) -> None:
    device = home.subscriber()
    home.engine.automatic = False
    home.publish(2)
    home.engine.sync()
    device.transport.lose()
    home.engine.sync()
    home.engine.automatic = True
    assert told(home.come()[1]) == [(0, 1, True)]
    assert device.received() == []


@every_version
async def test_a_clean_start_leaves_nothing_of_the_ids(home: Home, version: int) -> None:
    home.subscriber(version)
    home.publish(2)
    assert home.ids
    home.crash()
    device, came = home.come(version, clean_start=True)
    assert came == []
    assert home.ids == []
    device.subscribe("a")
    home.publish(2, first=1)
    assert told(device.received()) == [(1, 1, False)]


async def test_a_session_leaves_the_disk_with_its_ids_in_one_write(home: Home) -> None:
    device = home.subscriber()
    home.publish(2)
    device.transport.lose()
    home.crash()
    before = len(home.engine.written)
    home.house.broker.sweep(float("inf"))
    assert len(home.engine.written) == before + 1
    assert list(home.engine.states(("ids",))) == []


async def test_a_message_that_has_become_too_large_is_settled_and_not_sent(home: Home) -> None:
    device = home.subscriber()
    home.publish(2, 2, user_properties=[{"key": "k", "value": "v" * 200}])
    home.publish(2, first=2)
    assert len(device.received()) == 3
    home.crash()
    limits = {"session_expiry_interval": 300, "maximum_packet_size": 100}
    device, came = home.come(properties=limits)
    assert told(came) == [Pubrel(1), Pubrel(2), (2, 3, True)]
    device.send(Pubcomp(1), Pubcomp(2), Pubrec(3), Pubcomp(3))
    home.crash()
    assert home.come()[1] == []


async def test_where_there_is_no_record_every_id_that_the_client_may_hold_is_released_until_it_answers(home: Home) -> None:
    """A backup that was put back, or a repair, has left the ids out."""
    home.subscriber()
    home.publish(2)
    home.engine.write(Changes(state={name: None for kind in HALF_WAY for name, _ in home.engine.states((kind,))}))
    home.crash()
    for _ in range(2):
        device, came = home.come()
        kinds = [type(packet) for packet in came]
        assert (kinds[0], kinds[-1], set(kinds[:-1])) == (Pubrel, Publish, {Pubrel})
        device.transport.lose()
    device, came = home.come()
    device.send(Pubrec(1), Pubcomp(1))
    device.transport.lose()
    assert home.come()[1] == []


async def test_a_client_that_has_a_record_is_not_bothered_with_ids(home: Home) -> None:
    device = home.subscriber()
    home.publish(1)
    device.send(Puback(1))
    home.crash()
    assert home.come()[1] == []


async def test_what_is_sent_again_says_by_which_subscriptions_it_came(home: Home) -> None:
    device, _ = home.come()
    device.subscribe("a", identifier=7)
    device.subscribe("+", identifier=9)
    device.subscribe("b", qos=1)
    for topic in "abacc":
        home.house.broker.publish(wire_rows({"topic": topic, "qos": 2}), "someone")
    expected = [("a", [7, 9]), ("b", [9]), ("a", [7, 9]), ("c", [9]), ("c", [9])]
    assert identified(device.received()) == expected
    device.transport.lose()
    assert identified(home.come()[1]) == expected
    home.crash()
    assert identified(home.come()[1]) == expected
