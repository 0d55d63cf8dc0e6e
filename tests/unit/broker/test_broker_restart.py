"""Sessions of a file-native node survive it: subscriptions, QoS 2 ids, expiry; those that are over leave nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.broker import broker as module
from bridgehead.broker import sessionstore
from bridgehead.clock import now_us
from bridgehead.storage.engine import Changes
from bridgehead.storage.rocks import RocksEngine
from bridgehead.wire.packets import (
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from bridgehead.wire.reason import Reason
from making.device import Device, turn
from making.house import House
from making.rows import wire_rows
from making.site import SESSION, Site

KEPT: dict[int, dict[str, Any]] = {5: SESSION, 4: {"clean_start": False}}
every_version = pytest.mark.parametrize("version", [5, 4])


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@every_version
async def test_a_session_and_its_subscriptions_are_there_after_a_crash(site: Site, version: int) -> None:
    before = site.device(version)
    before.connect("d", **KEPT[version])
    before.subscribe("a/#", "b", qos=1)
    before.send(Unsubscribe(2, ["b"]))
    site.crash()
    after = site.device(version)
    assert after.connect("d", **KEPT[version]).session_present
    source = site.device()
    source.connect("s")
    source.publish("a/x", b"1", qos=2)
    source.publish("b", b"2", qos=1, packet_id=2)
    await turn()
    assert [(p.topic, p.payload, p.qos) for p in after.received_of(Publish)] == [("a/x", b"1", 1)]


async def test_options_and_identifiers_of_subscriptions_survive(site: Site) -> None:
    before = site.device()
    before.connect("d", **SESSION)
    before.subscribe("a", qos=2, identifier=77, no_local=True, retain_as_published=True)
    site.crash()
    after = site.device()
    after.connect("d", **SESSION)
    after.publish("a", b"own", retain=True)
    source = site.device()
    source.connect("s")
    source.publish("a", b"other", retain=True)
    await turn()
    (came,) = after.received_of(Publish)
    assert (came.payload, came.retain, came.properties) == (b"other", True, {"subscription_identifier": [77]})


@every_version
async def test_a_device_that_brings_its_qos_2_message_again_after_a_crash_is_answered_and_not_heard_twice(
    site: Site, version: int
) -> None:
    before = site.device(version)
    before.connect("d", **KEPT[version])
    before.publish("out/a", b"x", qos=2, packet_id=9)
    before.publish("out/b", b"x", qos=2, packet_id=10)
    await turn()
    assert before.received() == [Pubrec(9), Pubrec(10)]
    site.crash()
    after = site.device(version)
    after.connect("d", **KEPT[version])
    after.send(Publish("out/a", b"x", 2, packet_id=9, dup=True), Pubrel(10))
    await turn()
    assert after.received() == [Pubrec(9), Pubcomp(10)]
    after.send(Pubrel(9))
    await turn()
    assert after.received() == [Pubcomp(9)]
    assert site.house.journalled() == ["out/a", "out/b"]
    site.crash()
    last = site.device(version)
    last.connect("d", **KEPT[version])
    last.publish("out/c", b"x", qos=2, packet_id=9)  # free again
    await turn()
    assert site.house.journalled() == ["out/a", "out/b", "out/c"]


async def test_ids_on_the_disk_never_run_ahead_of_their_messages(site: Site) -> None:
    """A message from inside the node is written in the middle of a turn: ids of that turn wait for their own rows."""
    device, other = site.device(), site.device()
    device.connect("d", **SESSION)
    other.connect("o")
    device.publish("out/a", b"x", qos=2, packet_id=9)  # read, not yet gathered
    site.house.broker.publish(wire_rows({"topic": "out/will"}), "o")
    site.crash()
    after = site.device()
    after.connect("d", **SESSION)
    after.send(Publish("out/a", b"x", 2, packet_id=9, dup=True))
    await turn()
    assert site.house.journalled() == ["out/will", "out/a"]


@pytest.mark.parametrize("end", ["clean start", "expiry 0 at the end", "expiry 0 at the next connect", "time"])
async def test_a_session_that_is_over_leaves_nothing_on_the_disk(site: Site, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = site.device()
    device.connect("d", **SESSION)
    device.subscribe("a/#")
    device.publish("a/x", b"x", qos=2, packet_id=9)
    await turn()
    assert {name[0] for name in site.left()} == {"session", "subscription", "inbound", "ids", "ceiling", "queue"}
    if end == "expiry 0 at the end":
        device.send(Disconnect(Reason.NORMAL_DISCONNECTION, {"session_expiry_interval": 0}))
        device.transport.lose()
    elif end == "time":
        device.transport.lose()
        later = now_us() + 301_000_000
        monkeypatch.setattr(sessionstore, "now_us", lambda: later)
        site.crash()
    else:
        again = site.device()
        again.connect("d", clean_start=end == "clean start")
        again.transport.lose()
    assert site.left() == []
    site.crash()
    assert not site.device().connect("d", **SESSION).session_present


async def test_a_session_whose_next_connection_kept_nothing_is_over_with_a_crash(site: Site) -> None:
    device = site.device()
    device.connect("d", **SESSION)
    device.subscribe("a")
    device.transport.lose()
    again = site.device()
    assert again.connect("d", clean_start=False).session_present  # expiry 0: it ends with this connection
    site.crash()
    assert site.left() == []


async def test_the_time_of_a_session_goes_on_while_the_node_is_down(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    device = site.device()
    device.connect("d", **SESSION)
    device.transport.lose()
    later = now_us() + 200_000_000
    monkeypatch.setattr(sessionstore, "now_us", lambda: later)
    site.crash()
    ended = site.house.broker.sessions["d"].ended_at
    assert ended is not None
    site.house.broker.sweep(ended + 299)
    assert "d" in site.house.broker.sessions
    site.house.broker.sweep(ended + 300)
    assert site.left() == []


async def test_sessions_that_end_with_their_connection_are_never_written(site: Site) -> None:
    for version in (5, 4):
        device = site.device(version)
        device.connect("d", clean_start=True)
        device.subscribe("a/#")
        device.publish("a/x", b"x", qos=2)
        await turn()
    assert site.left() == []


async def test_what_damage_has_left_of_a_session_is_taken_away(site: Site) -> None:
    device = site.device()
    device.connect("d", **SESSION)
    device.subscribe("a")
    site.engine.write(Changes(state={("session", "d"): None}))
    site.crash()
    assert site.left() == []
    assert not site.device().connect("d", **SESSION).session_present


async def test_one_session_too_many_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS_LIMIT", 1)
    site.device().connect("a")
    assert site.device().connect("b").reason == Reason.QUOTA_EXCEEDED
    assert site.house.broker.refusals == {"quota_exceeded": 1}
    assert site.device().connect("a").reason == Reason.SUCCESS


class HeldEngine(RocksEngine):
    """Whoever waits for the disk is told when the test says so."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, sync=False)
        self.waiting: list[Callable[[], None]] = []

    def when_synced(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def sync(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldEngine]:
    engine = HeldEngine(tmp_path / "held")
    yield engine
    engine.close()


async def test_answers_about_a_session_wait_for_the_disk_and_keep_their_order(held: HeldEngine) -> None:
    house = House(engine=held)
    device = Device(house.broker)
    connect = Connect(protocol_level=5, client_id="d", **SESSION)
    device.send(connect, Pingreq(), Subscribe(1, [Subscription("a", 1)]), Unsubscribe(2, ["a"]))
    assert device.received() == []
    held.sync()
    kinds = [type(packet).__name__ for packet in device.received()]
    assert kinds == ["Connack", "Pingresp", "Suback", "Unsuback"]
    device.send(Pingreq())
    assert device.received() == [Pingresp()]
    house.broker.close()


async def test_retained_messages_of_qos_1_and_2_survive_and_what_was_deleted_or_overtaken_does_not(site: Site) -> None:
    source = site.device()
    source.connect("s")
    for packet_id, (topic, payload, qos) in enumerate(
        [("a", b"1", 1), ("b", b"2", 2), ("c", b"3", 0), ("d", b"4", 1), ("d", b"", 1), ("e", b"5", 1), ("e", b"6", 0)], 1
    ):
        source.publish(topic, payload, qos, packet_id if qos else 0, retain=True)
        await turn()
    site.crash()
    after = site.device()
    after.connect("r")
    came = [packet for packet in after.subscribe("#") if isinstance(packet, Publish)]
    assert sorted((each.topic, each.payload, each.qos, each.retain) for each in came) == [
        ("a", b"1", 1, True),
        ("b", b"2", 2, True),
    ]


async def test_a_retained_message_is_kept_by_the_write_that_its_acknowledgement_waits_for(held: HeldEngine) -> None:
    house = House(engine=held)
    device = Device(house.broker)
    device.send(Connect(protocol_level=5, client_id="d"))
    held.sync()
    device.received()
    device.publish("a", b"1", 1, retain=True)  # no route and no subscriber wants it
    await turn()
    assert device.received() == []
    assert list(held.numbers(("retained",))) == [0]
    held.sync()
    assert device.received() == [Puback(1)]
    house.broker.close()
