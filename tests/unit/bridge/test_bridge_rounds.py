"""Rounds: what many routes have to send leaves together, each route's rows in their order, none before its turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.outgoing import Outgoing
from bridgehead.link.link import Link
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.packets import Publish
from making.packets import split
from making.rows import numbered, outbox_rows
from making.transport import FakeTransport, Nobody

ROUTES = 5
PUBACK = 4


class Bench:
    def __init__(self, *, window: int = 100, version: int = 5, max_packet: int = 0) -> None:
        self.version = version
        self.engine = MemoryEngine()
        self.outboxes = [Outbox(f"r{i}", self.engine, 1000, 1 << 20) for i in range(ROUTES)]
        forwarders = [Forwarder(i, outbox, 100) for i, outbox in enumerate(self.outboxes)]
        self.outgoing = Outgoing("b", version, forwarders, self.engine)
        self.outgoing.limit(window, max_packet)
        self.outgoing.start_anew()
        self.link = Link(Nobody())
        self.transport = FakeTransport(self.link)
        self.link.connection_made(self.transport)
        self.outgoing.attach(self.link)

    def land(self, route: int, first: int, count: int, **given: Any) -> None:
        changes = Changes()
        self.outboxes[route].land(changes, outbox_rows(*numbered(first, count, topic=f"t{route}", **given)))
        self.engine.write(changes)
        self.outboxes[route].landed()

    def sent(self) -> list[Publish]:
        """What has left since the last look."""
        self.outgoing.pump_if_due()
        packets, rest = split(bytes(self.transport.taken), self.version)
        assert not rest
        self.transport.taken.clear()
        return [packet for packet in packets if isinstance(packet, Publish)]

    def acknowledge(self, packets: list[Publish]) -> None:
        acks = [(PUBACK, packet.packet_id, 0) for packet in packets if packet.qos]
        self.outgoing.acked(np.array(acks, np.int64).reshape(-1, 3))


def by_topic(packets: list[Publish]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for packet in packets:
        found.setdefault(packet.topic, []).append(int(packet.payload))
    return found


async def test_rows_of_many_routes_leave_in_one_write_each_route_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    writes: list[int] = []
    write = bench.link.write
    monkeypatch.setattr(bench.link, "write", lambda data: (writes.append(len(data)), write(data)))
    for route in range(ROUTES):
        bench.land(route, 0, 4 + route)
    packets = bench.sent()
    assert len(writes) == 1
    assert by_topic(packets) == {f"t{route}": list(range(4 + route)) for route in range(ROUTES)}
    bench.acknowledge(packets)
    assert [(box.delivered, box.depth) for box in bench.outboxes] == [(4 + route, 0) for route in range(ROUTES)]
    assert bench.outgoing.in_flight == 0


@pytest.mark.parametrize(
    "given", [{"qos": 0}, {"message_expiry": 100, "received_at": 0}, {"payload": b"1" * 200}], ids=["qos 0", "expired", "large"]
)
async def test_a_row_that_needs_a_look_of_its_own_holds_up_no_other(given: dict[str, Any]) -> None:
    bench = Bench(max_packet=150)
    for route in range(ROUTES):
        bench.land(route, 0, 3)
    bench.land(2, 3, 1, **given)
    bench.land(2, 4, 1)
    packets = bench.sent()
    bench.acknowledge(packets)
    assert by_topic(packets)["t1"] == [0, 1, 2]
    assert by_topic(packets)["t2"] == ([0, 1, 2, 3, 4] if "qos" in given else [0, 1, 2, 4])
    assert [box.depth for box in bench.outboxes] == [0] * ROUTES
    assert bench.outboxes[2].entered == 5


async def test_a_small_window_is_shared_by_turns() -> None:
    bench = Bench(window=4)
    for route in range(ROUTES):
        bench.land(route, 0, 3)
    found: dict[str, list[int]] = {}
    while packets := bench.sent():
        assert len(packets) <= 4
        bench.acknowledge(packets)
        for topic, rows in by_topic(packets).items():
            found.setdefault(topic, []).extend(rows)
    assert found == {f"t{route}": [0, 1, 2] for route in range(ROUTES)}


async def test_over_3_1_1_qos_2_keeps_to_its_own_window_whatever_other_routes_send() -> None:
    bench = Bench(version=4)
    bench.land(0, 0, 30, qos=2)
    bench.land(1, 0, 30, qos=1)
    packets = bench.sent()
    assert by_topic(packets) == {"t0": list(range(20)), "t1": list(range(30))}


async def test_what_was_in_flight_of_many_routes_is_sent_again_by_each() -> None:
    bench = Bench()
    for route in range(ROUTES):
        bench.land(route, 0, 3)
    first = bench.sent()
    bench.acknowledge(first[::2])
    bench.outgoing.detach()
    bench.outgoing.resume()
    bench.link = Link(Nobody())
    bench.transport = FakeTransport(bench.link)
    bench.link.connection_made(bench.transport)
    bench.outgoing.attach(bench.link)
    again = bench.sent()
    assert [(packet.topic, packet.payload, packet.packet_id) for packet in again] == [
        (packet.topic, packet.payload, packet.packet_id) for packet in first[1::2]
    ]
    assert all(packet.dup for packet in again)
    bench.acknowledge(again)
    assert [box.depth for box in bench.outboxes] == [0] * ROUTES
