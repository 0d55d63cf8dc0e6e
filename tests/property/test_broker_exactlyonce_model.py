"""A client's session through random cuts, kills and power cuts of the node: QoS 2 arrives exactly once and in order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.wire.packets import Connack, Connect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe, Subscription
from making.device import Device
from making.house import House
from making.power import PowerEngine
from making.rows import wire_rows

TOPICS = ("a", "b")


class ModelClient:
    """What MQTT asks of a receiver, and no more; its session outlives everything. Delivers at PUBLISH, or at PUBREL."""

    def __init__(self, *, at_pubrel: bool) -> None:
        self.at_pubrel = at_pubrel
        self.half_way: dict[int, Publish] = {}
        self.got: list[Publish] = []

    def take(self, packet: Packet) -> Packet:
        if isinstance(packet, Pubrel):
            held = self.half_way.pop(packet.packet_id, None)
            if held is not None and self.at_pubrel:
                self.got.append(held)
            return Pubcomp(packet.packet_id)
        assert isinstance(packet, Publish)
        if packet.qos == 1:
            self.got.append(packet)
            return Puback(packet.packet_id)
        if packet.packet_id not in self.half_way:
            self.half_way[packet.packet_id] = packet
            if not self.at_pubrel:
                self.got.append(packet)
        return Pubrec(packet.packet_id)


class Story:
    """What comes to the client, and what it answers, is on its way until the script lets it arrive."""

    def __init__(self, version: int, client: ModelClient) -> None:
        self.version = version
        self.client = client
        self.engine = PowerEngine(automatic=False)
        self.qos: list[int] = []  # of every message by its number
        self.promised: set[int] = set()
        self.window = 5
        self.house = House(engine=self.engine)
        self.connect()
        wishes = [Subscription(topic, qos=2) for topic in TOPICS]
        self.device.send(Subscribe(1, wishes))
        self.engine.sync()
        self.look()
        self.there.clear()  # SUBACK

    def connect(self) -> None:
        self.there: list[Packet] = []
        self.back: list[Packet] = []
        self.greeted = False
        self.device = Device(self.house.broker, self.version)
        limits = {"session_expiry_interval": 300, "receive_maximum": self.window} if self.version == 5 else {}
        self.device.send(Connect(protocol_level=self.version, client_id="d", clean_start=False, properties=limits))

    def look(self) -> None:
        packets = self.device.received()
        if packets and not self.greeted:
            first = packets.pop(0)
            assert isinstance(first, Connack)
            self.greeted = True
        self.there += packets

    def land(self, topic: int, levels: list[int]) -> None:
        numbers = range(len(self.qos), len(self.qos) + len(levels))
        self.qos += levels
        rows = [{"topic": TOPICS[topic], "payload": b"%d" % n, "qos": qos} for n, qos in zip(numbers, levels, strict=True)]
        self.house.broker.publish(wire_rows(*rows), "someone")
        self.engine.when_synced(lambda: self.promised.update(numbers))

    def arrive(self, count: int) -> None:
        self.back += [self.client.take(packet) for packet in self.there[:count]]
        del self.there[:count]

    def answer(self, count: int) -> None:
        if self.back:
            self.device.send(*self.back[:count])
            del self.back[:count]

    def cut(self, window: int) -> None:
        self.window = window
        self.device.transport.lose()
        self.connect()

    def crash(self, lost: float) -> None:
        dying = self.house
        self.engine = self.engine.crash(round(lost * self.engine.unsynced))
        self.house = House(engine=self.engine)
        dying.broker.close()
        self.connect()

    def sync(self) -> None:
        self.engine.sync()

    def flow(self, rounds: int) -> None:
        """Nothing is in the way for a while."""
        for _ in range(rounds):
            self.engine.sync()
            self.look()
            self.arrive(len(self.there))
            self.answer(len(self.back))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("land"), st.integers(0, 1), st.lists(st.sampled_from([1, 2, 2]), min_size=1, max_size=6)),
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


async def tell(script: list[tuple[Any, ...]], version: int, client: ModelClient) -> Story:
    story = Story(version, client)
    for name, *values in script:
        getattr(story, name)(*values)
        story.look()
    story.flow(4 + 4 * len(story.qos))
    story.house.broker.close()
    return story


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from([4, 5]), st.booleans())
def test_qos_2_arrives_exactly_once_and_in_order_whatever_ends_when(
    script: list[tuple[Any, ...]], version: int, at_pubrel: bool
) -> None:
    client = ModelClient(at_pubrel=at_pubrel)
    story = asyncio.run(tell(script, version, client))
    assert story.house.broker.sessions["d"].outbox.depth == 0
    assert client.half_way == {}
    assert story.promised <= {int(one.payload) for one in client.got}
    for topic in TOPICS:
        came = [int(one.payload) for one in client.got if one.topic == topic]
        exactly_once = [number for number in came if story.qos[number] == 2]
        assert exactly_once == sorted(set(exactly_once)), "once, in order"
        at_least_once = list(dict.fromkeys(number for number in came if story.qos[number] == 1))
        assert at_least_once == sorted(at_least_once), "each first time in order"
        if not at_pubrel:
            first = list(dict.fromkeys(came))
            assert first == sorted(first), "all levels of a topic in one order"
