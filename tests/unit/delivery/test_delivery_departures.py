"""The last stretch: frames leave in order, some only when the disk is ready, and rows are done when the kernel has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.delivery.departures import Departure, Departures
from bridgehead.link.link import WRITE_HIGH, Link
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.power import PowerEngine
from making.rows import numbered, outbox_rows
from making.transport import FakeTransport, Nobody


class Station:
    def __init__(self) -> None:
        self.engine = PowerEngine(automatic=False)
        self.rooms = 0
        self.departures = Departures(self.engine.when_synced, self.on_room)
        self.attach()

    def on_room(self) -> None:
        self.rooms += 1

    def attach(self) -> None:
        link = Link(Nobody())
        self.transport = FakeTransport(link)
        link.connection_made(self.transport)
        self.departures.attach(link)

    def send(self, data: bytes, *, after_sync: bool = False, **given: Any) -> None:
        if after_sync:
            self.engine.write(Changes())
        self.departures.send(Departure(data, **given), after_sync=after_sync)

    @property
    def left(self) -> bytes:
        return bytes(self.transport.taken)


@pytest.fixture
async def station() -> Station:
    return Station()


def rows(count: int) -> Forwarder:
    """A forwarder whose rows are all polled."""
    engine = MemoryEngine()
    outbox, changes = Outbox("r", engine, 100, 1 << 20), Changes()
    outbox.land(changes, outbox_rows(*numbered(0, count, qos=0)))
    engine.write(changes)
    outbox.landed()
    outbox.poll(count)
    return Forwarder(0, outbox, 10)


async def test_what_needs_no_disk_leaves_at_once(station: Station) -> None:
    station.send(b"a")
    assert station.left == b"a"
    assert not station.departures.holding


async def test_what_comes_behind_a_frame_that_waits_for_the_disk_waits_with_it(station: Station) -> None:
    station.send(b"a", after_sync=True)
    station.send(b"b")
    station.send(b"c", after_sync=True)
    assert station.left == b""
    assert station.departures.holding
    station.engine.sync()
    assert station.left == b"abc"


async def test_what_waits_is_bounded_and_whoever_stopped_is_told(station: Station) -> None:
    station.send(b"x" * WRITE_HIGH, after_sync=True)
    assert not station.departures.writable
    station.engine.sync()
    assert station.departures.writable
    assert station.rooms == 1


async def test_what_waited_when_the_connection_ended_never_leaves(station: Station) -> None:
    forwarder = rows(2)
    ids = np.array([7], np.uint16)
    station.send(b"ab", after_sync=True, queue=forwarder, unacknowledged=np.arange(2), ends=np.array([1, 2]), ids=ids)
    remains = station.departures.detach()
    assert [(number, seqs.tolist()) for number, seqs in remains.rows] == [(0, [0, 1])]
    assert remains.ids.tolist() == [7]
    station.attach()
    station.send(b"c", after_sync=True)
    station.engine.sync()
    assert station.left == b"c"


async def test_rows_that_have_left_are_done_when_the_kernel_has_taken_them(station: Station) -> None:
    forwarder = rows(3)
    station.transport.stuck = True
    station.send(b"abc", after_sync=True, queue=forwarder, unacknowledged=np.arange(3), ends=np.array([1, 2, 3]))
    assert station.departures.in_socket == 0, "they are not even in the socket"
    station.engine.sync()
    assert station.departures.in_socket == 3
    station.transport.drain(2)
    station.departures.settle()
    assert (forwarder.outbox.delivered, station.departures.in_socket) == (2, 1)
    assert [seqs.tolist() for _, seqs in station.departures.detach().rows] == [[2]]
    station.departures.stop()


async def test_no_acknowledgement_is_expected_before_the_kernel_has_what_it_would_be_for(station: Station) -> None:
    station.transport.stuck = True
    station.send(b"abc", expects=True)
    station.send(b"def")
    assert station.departures.taken(in_flight=True) == 0
    station.transport.drain(2)
    assert station.departures.taken(in_flight=True) == 2
    station.transport.drain()
    assert station.departures.taken(in_flight=True) == 3, "what is taken beyond it is no progress"
    station.departures.expect()
    assert station.departures.taken(in_flight=True) == 6
    assert station.departures.taken(in_flight=False) == 0
