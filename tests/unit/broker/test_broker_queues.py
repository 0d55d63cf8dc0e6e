"""What was acknowledged to a publisher is not lost to a subscriber that keeps its session, whatever becomes of the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.wire.packets import Connack, Connect, Packet, Puback, Pubcomp, Publish, Pubrec
from making.device import Device, turn
from making.rows import wire_rows
from making.site import SESSION, Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def subscriber(site: Site, *filters: str, **given: Any) -> Device:
    device = site.device()
    device.connect("d", **SESSION)
    device.subscribe(*filters, **given)
    return device


def back(site: Site) -> tuple[Device, list[Packet]]:
    """The subscriber comes back; what it gets at once, behind CONNACK."""
    device = site.device()
    device.send(Connect(protocol_level=5, client_id="d", **SESSION))
    connack, *rest = device.received()
    assert isinstance(connack, Connack)
    assert connack.session_present
    return device, rest


async def publish(site: Site, *messages: tuple[str, bytes, int]) -> None:
    source = site.device()
    source.connect("s")
    for packet_id, (topic, payload, qos) in enumerate(messages, 1):
        source.publish(topic, payload, qos, packet_id if qos else 0)
    await turn()


def payloads(packets: list[Packet]) -> list[bytes]:
    return [packet.payload for packet in packets if isinstance(packet, Publish)]


@pytest.mark.parametrize("away", [True, False])
async def test_what_waits_for_a_subscriber_is_there_after_a_crash_in_order(site: Site, away: bool) -> None:
    before = subscriber(site, "a/#")
    if away:
        before.transport.lose()
    else:
        before.transport.stuck = True  # it reads nothing
    await publish(site, *((f"a/{n % 3}", b"%d" % n, n % 3) for n in range(30)))
    site.crash()
    after, came = back(site)
    assert payloads(came) == [b"%d" % n for n in range(30) if n % 3], "QoS 0 is never on the disk"
    await publish(site, ("a/x", b"new", 1))
    assert payloads(after.received()) == [b"new"]


async def test_what_a_subscriber_has_acknowledged_does_not_come_again(site: Site) -> None:
    before = subscriber(site, "a/#")
    await publish(site, ("a/1", b"1", 1), ("a/2", b"2", 2), ("a/3", b"3", 1), ("a/4", b"4", 1))
    ids = [packet.packet_id for packet in before.received_of(Publish)]
    before.send(Puback(ids[0]), Pubrec(ids[1]), Pubcomp(ids[1]), Puback(ids[3]))
    site.crash()
    assert payloads(back(site)[1]) == [b"3"]


async def test_rows_and_their_identifiers_after_a_crash(site: Site) -> None:
    before = subscriber(site, "a/+", identifier=7)
    before.subscribe("a/2", identifier=9)
    before.subscribe("b")
    before.transport.lose()
    await publish(site, ("a/1", b"", 1), ("a/2", b"", 1), ("b", b"", 1), ("a/1", b"", 1))
    site.crash()
    came = [packet for packet in back(site)[1] if isinstance(packet, Publish)]
    found = sorted((each.topic, each.properties.get("subscription_identifier", [])) for each in came)
    assert found == [("a/1", [7]), ("a/1", [7]), ("a/2", [7, 9]), ("b", [])]


async def test_a_session_that_ends_while_rows_wait_for_the_disk_leaves_nothing(site: Site) -> None:
    before = subscriber(site, "a/#")
    await publish(site, *(("a/1", b"%d" % n, 1) for n in range(100)))
    before.transport.lose()
    again = site.device()
    again.connect("d")  # a clean start
    assert again.received() == []
    assert site.left() == []


async def test_many_small_landings_are_merged_and_survive(site: Site) -> None:
    subscriber(site, "a/#").transport.lose()
    source = site.device()
    source.connect("s")
    for n in range(200):
        source.publish("a/1", b"%d" % n, 1)
        await turn()
    assert len(list(site.engine.numbers(("queue", "d")))) < 64
    site.crash()
    assert payloads(back(site)[1]) == [b"%d" % n for n in range(200)]


async def test_a_message_from_inside_the_node_reaches_a_kept_queue_in_the_write_of_whoever_sends_it(site: Site) -> None:
    subscriber(site, "in/#").transport.lose()
    writes: list[int] = []

    def with_it(changes: Any, rows: int, unheard: int) -> None:
        writes.append(len(changes.puts))
        changes.state[("taken",)] = 1

    site.house.broker.publish(wire_rows({"topic": "in/a", "payload": b"x"}), "bridge", with_it)
    site.crash()
    assert writes == [1]
    assert site.engine.state(("taken",)) == 1
    assert payloads(back(site)[1]) == [b"x"]
