"""An uplink through random cuts, kills and power cuts, towards a remote that keeps its session: QoS 2 arrives exactly once."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.outgoing import Outgoing
from bridgehead.link.link import Link
from bridgehead.storage.engine import Changes
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.packets import Packet, Publish, Pubrel
from making.packets import split
from making.power import PowerEngine
from making.rows import outbox_rows
from making.transport import FakeTransport, Nobody

PUBACK, PUBREC, PUBCOMP = 4, 5, 7
ROUTES = 2


class ModelRemote:
    """What MQTT asks of a receiver, and no more; its session outlives everything. Delivers at PUBLISH, or at PUBREL."""

    def __init__(self, *, at_pubrel: bool) -> None:
        self.at_pubrel = at_pubrel
        self.half_way: dict[int, Publish] = {}
        self.got: list[Publish] = []

    def take(self, packet: Packet) -> tuple[int, int, int]:
        if isinstance(packet, Pubrel):
            held = self.half_way.pop(packet.packet_id, None)
            if held is not None and self.at_pubrel:
                self.got.append(held)
            return PUBCOMP, packet.packet_id, 0
        assert isinstance(packet, Publish)
        if packet.qos == 1:
            self.got.append(packet)
            return PUBACK, packet.packet_id, 0
        if packet.packet_id not in self.half_way:
            self.half_way[packet.packet_id] = packet
            if not self.at_pubrel:
                self.got.append(packet)
        return PUBREC, packet.packet_id, 0


class Story:
    def __init__(self, version: int, remote: ModelRemote) -> None:
        self.version = version
        self.remote = remote
        self.engine = PowerEngine(automatic=False)
        self.qos: list[int] = []  # of every message by its number
        self.promised: set[int] = set()
        self.window = 5
        self.begin(present=False)

    def begin(self, *, present: bool) -> None:
        """A life of the node, up to its first connection."""
        self.outboxes = [Outbox(f"r{i}", self.engine, 1000, 1 << 20) for i in range(ROUTES)]
        forwarders = [Forwarder(i, outbox, 3) for i, outbox in enumerate(self.outboxes)]
        self.outgoing = Outgoing("b", self.version, forwarders, self.engine, ["edge"])
        self.connect(present=present)

    def connect(self, *, present: bool = True) -> None:
        self.there: list[Packet] = []  # on the wire
        self.back: list[tuple[int, int, int]] = []
        link = Link(Nobody())
        self.transport = FakeTransport(link)
        link.connection_made(self.transport)
        self.outgoing.limit(self.window, 0)
        assert (self.outgoing.resume() if present else self.outgoing.start_anew()) == 0
        self.outgoing.attach(link)

    async def turn(self) -> None:
        await asyncio.sleep(0)
        packets, rest = split(bytes(self.transport.taken), self.version)
        assert rest == b""
        self.transport.taken.clear()
        self.there += packets

    def land(self, route: int, levels: list[int]) -> None:
        numbers = range(len(self.qos), len(self.qos) + len(levels))
        self.qos += levels
        rows = [{"topic": f"t{route}", "payload": b"%d" % n, "qos": qos} for n, qos in zip(numbers, levels, strict=True)]
        changes, outbox = Changes(), self.outboxes[route]
        outbox.land(changes, outbox_rows(*rows))
        self.engine.write(changes)
        self.engine.when_synced(lambda end=outbox.end: self.landed(outbox, end, set(numbers)))

    def landed(self, outbox: Outbox, end: int, numbers: set[int]) -> None:
        self.promised |= numbers
        outbox.landed(end)

    def arrive(self, count: int) -> None:
        for packet in self.there[:count]:
            self.back.append(self.remote.take(packet))
        del self.there[:count]

    def answer(self, count: int) -> None:
        if self.back:
            self.outgoing.acked(np.array(self.back[:count], np.int64))
            del self.back[:count]

    def cut(self, window: int) -> None:
        self.window = window
        self.outgoing.detach()
        self.connect()

    def crash(self, lost: float) -> None:
        self.outgoing.stop()
        self.engine = self.engine.crash(round(lost * self.engine.unsynced))
        self.begin(present=True)

    async def flow(self, rounds: int) -> None:
        """Nothing is in the way for a while."""
        for _ in range(rounds):
            self.engine.sync()
            await self.turn()
            self.arrive(len(self.there))
            self.answer(len(self.back))

    async def calm(self) -> None:
        await self.flow(3 + 4 * len(self.qos))
        self.outgoing.stop()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("land"), st.integers(0, ROUTES - 1), st.lists(st.sampled_from([1, 2, 2]), min_size=1, max_size=6)),
        st.tuples(st.just("arrive"), st.integers(1, 8)),
        st.tuples(st.just("answer"), st.integers(1, 8)),
        st.tuples(st.just("sync")),
        st.tuples(st.just("flow"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.integers(1, 7)),
        st.tuples(st.just("crash"), st.sampled_from([0.0, 0.5, 1.0])),
    ),
    min_size=25,  # a fault shows only after several things in a row: short stories tell little
    max_size=60,
)


async def tell(script: list[tuple[Any, ...]], version: int, *, at_pubrel: bool) -> tuple[Story, ModelRemote]:
    remote = ModelRemote(at_pubrel=at_pubrel)
    story = Story(version, remote)
    for name, *values in script:
        if name == "sync":
            story.engine.sync()
        elif name == "flow":
            await story.flow(*values)
        else:
            getattr(story, name)(*values)
        await story.turn()
    await story.calm()
    return story, remote


@settings(max_examples=200, deadline=None)
@given(steps, st.sampled_from([4, 5]), st.booleans())
def test_qos_2_arrives_exactly_once_and_in_order_whatever_ends_when(
    script: list[tuple[Any, ...]], version: int, at_pubrel: bool
) -> None:
    story, remote = asyncio.run(tell(script, version, at_pubrel=at_pubrel))
    assert all(outbox.depth == 0 for outbox in story.outboxes)
    assert story.outgoing.in_flight == 0
    assert remote.half_way == {}
    assert story.promised <= {int(one.payload) for one in remote.got}
    for route in range(ROUTES):
        came = [int(one.payload) for one in remote.got if one.topic == f"t{route}"]
        exactly_once = [number for number in came if story.qos[number] == 2]
        assert exactly_once == sorted(set(exactly_once)), "once, in order"
        at_least_once = list(dict.fromkeys(number for number in came if story.qos[number] == 1))
        assert at_least_once == sorted(at_least_once), "each first time in order"
        if not at_pubrel:
            first = list(dict.fromkeys(came))
            assert first == sorted(first), "all levels of a topic in one order"
