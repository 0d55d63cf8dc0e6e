"""A node that has no room for all that devices or a remote send, and dies at any moment: all of it leaves, at QoS 2 once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.bridge.uplink import Uplink
from bridgehead.link.link import Link
from bridgehead.session.stream import PacketStream
from bridgehead.storage.engine import Changes
from bridgehead.storage.freespace import FreeSpace
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Connack, Connect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from making.device import Device, turn
from making.house import FullHouse
from making.packets import split
from making.power import PowerEngine
from making.site import SESSION
from making.span import Span
from making.transport import FakeTransport

IDS = 4
LIMIT = 2
"""Messages for which the route has room."""
MIN_FREE = 160
VERSIONS = (4, 4, 5)
"""Of the devices: two that are held back, and one that is told."""


class Peer(Protocol):
    """Somebody who is connected to the node."""

    transport: FakeTransport

    def send(self, *packets: Packet) -> None: ...

    def received(self) -> list[Packet]: ...


class Sender:
    """What MQTT asks of the sending side, and nothing more. What is refused is sent as new."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self._topic = topic
        self._sent = 0
        self._unanswered: dict[int, Publish] = {}  # by packet id: no PUBACK or PUBREC yet
        self._unreleased: list[int] = []  # no PUBCOMP yet
        self.refused: list[Publish] = []
        self._on_its_way: list[Packet] = []  # to a node that does not read

    @property
    def payloads(self) -> list[bytes]:
        return [self._payload(number) for number in range(self._sent)]

    @property
    def owes(self) -> bool:
        return bool(self._unanswered or self._unreleased or self.refused)

    def _payload(self, number: int) -> bytes:
        return f"{self.name}-{number}-qos{1 + number % 2}".encode()

    def come(self, peer: Peer) -> None:
        """A new connection: everything that is open is sent again."""
        self.peer = peer
        for message in self._unanswered.values():
            message.dup = True
        self._on_its_way = [*self._unanswered.values(), *map(Pubrel, self._unreleased)]
        self._say()

    def _say(self, *packets: Packet) -> None:
        self._on_its_way += packets
        while self._on_its_way and self.peer.transport.reading:
            self.peer.send(self._on_its_way.pop(0))

    def publish(self) -> None:
        free = [each for each in range(1, 1 + IDS) if each not in self._unanswered and each not in self._unreleased]
        if not free:
            return
        if self.refused:
            message = self.refused.pop(0)
        else:
            message = Publish(self._topic, self._payload(self._sent), 1 + self._sent % 2)
            self._sent += 1
        message = Publish(message.topic, message.payload, message.qos, packet_id=free[0])
        self._unanswered[free[0]] = message
        self._say(message)

    def hear(self) -> None:
        self._say()
        for packet in self.peer.received():
            if isinstance(packet, Puback | Pubrec):
                message = self._unanswered.pop(packet.packet_id, None)
                if packet.reason >= 0x80:
                    assert message is not None
                    self.refused.append(message)
                elif isinstance(packet, Pubrec):
                    if packet.packet_id not in self._unreleased:
                        self._unreleased.append(packet.packet_id)
                    self._say(Pubrel(packet.packet_id))
            elif isinstance(packet, Pubcomp) and packet.packet_id in self._unreleased:
                self._unreleased.remove(packet.packet_id)


class Story(ABC):
    """Steps that happen to both."""

    senders: Sequence[Sender]

    def __init__(self) -> None:
        self.engine = PowerEngine(automatic=False)
        self.left: list[bytes] = []
        self._free = 2 * MIN_FREE
        self.live()

    def live(self) -> None:
        """The next life of the node, on the disk of the last one."""
        self.space = FreeSpace(lambda: self._free, MIN_FREE)
        self.begin()
        for sender in self.senders:
            sender.come(self.connect(sender))

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def connect(self, sender: Sender) -> Peer: ...

    @abstractmethod
    def leave(self) -> list[bytes]:
        """Some of what the node has is gone for good, and there is room again."""

    @abstractmethod
    def end(self) -> None: ...

    async def do(self, step: str, who: int) -> None:
        sender = self.senders[who % len(self.senders)]
        if step == "turn":
            await turn()
        elif step == "sync":
            self.engine.sync()
        elif step == "leave":
            self.left += self.leave()
        elif step in ("low", "high"):
            self._free = 0 if step == "low" else 2 * MIN_FREE
            self.space.look()
        elif step == "cut":
            sender.peer.transport.lose()
            sender.come(self.connect(sender))
        elif step == "kill":
            self.end()
            self.engine = self.engine.crash()
            self.live()
        else:
            getattr(sender, step)()

    async def calm(self) -> None:
        """There is room, and nothing breaks any more."""
        await self.do("high", 0)
        for _ in range(200):
            self.engine.sync()
            await turn()
            self.left += self.leave()
            for sender in self.senders:
                sender.hear()
                if sender.refused:
                    sender.publish()
        assert not any(sender.owes for sender in self.senders), "everybody is answered in the end"

    async def play(self, plan: list[tuple[str, int]]) -> None:
        for step, who in plan:
            await self.do(step, who)
        await self.calm()
        self.end()
        assert set(self.left) == {payload for sender in self.senders for payload in sender.payloads}
        assert not [payload for payload, times in Counter(self.left).items() if times > 1 and payload.endswith(b"qos2")]


class Devices(Story):
    def __init__(self) -> None:
        self.senders = [Sender(f"d{number}", "out/a") for number in range(len(VERSIONS))]
        self._versions = dict(zip(self.senders, VERSIONS, strict=True))
        super().__init__()

    def begin(self) -> None:
        self._house = FullHouse(LIMIT, engine=self.engine, space=self.space)
        self.space.on_room = self._house.broker.room_again

    def connect(self, sender: Sender) -> Peer:
        version = self._versions[sender]
        device = Device(self._house.broker, version)
        given = SESSION if version == 5 else {"clean_start": False}
        device.send(Connect(protocol_level=version, client_id=sender.name, **given))
        self.engine.sync()  # the answer waits for it
        assert isinstance(device.received()[0], Connack)
        return device

    def leave(self) -> list[bytes]:
        return self._house.leave(1)

    def end(self) -> None:
        self._house.broker.close()


class RemoteEnd:
    """The other end of an uplink's connection."""

    def __init__(self, uplink: Uplink, inbound: Any, *, present: bool) -> None:
        uplink._stream = PacketStream(from_server=True, version=5)
        uplink._stream.inbound, uplink._stream.greeted = inbound, False
        uplink._link = Link(uplink)
        self.transport = FakeTransport(uplink._link)
        uplink._link.connection_made(self.transport)
        self.send(Connack(session_present=present))
        self.received()

    def send(self, *packets: Packet) -> None:
        self.transport.receive(b"".join(encode(packet, 5) for packet in packets))

    def received(self) -> list[Packet]:
        packets, rest = split(bytes(self.transport.taken), 5)
        self.transport.taken[:] = rest
        return packets


class Remotes(Story):
    def __init__(self) -> None:
        self.senders = [Sender("r", "in/a")]
        self._known = False
        super().__init__()

    def begin(self) -> None:
        self._span = Span(0, pull=True, pull_limit=LIMIT, engine=self.engine, space=self.space)
        self.space.on_room = self._span.consumer.room_again

    def connect(self, sender: Sender) -> Peer:
        present, self._known = self._known, True
        self.engine.sync()
        return RemoteEnd(self._span.uplink, self._span.consumer.inbound.marks, present=present)

    def leave(self) -> list[bytes]:
        log, changes = self._span.log, Changes()
        gone = log.read(log.consumed, log.visible)
        log.consume(changes, log.visible)
        self.engine.write(changes)
        self._span.consumer.room_again()
        return [payload for _, batch in gone for payload in batch.column("payload").to_pylist()]

    def end(self) -> None:
        self._span.uplink.outgoing.stop()


STEPS = ["publish"] * 5 + ["turn", "turn", "sync", "hear", "leave", "leave", "low", "high", "cut", "kill"]
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, len(VERSIONS) - 1)), max_size=40)

SERVED_WHILE_ANOTHER_IS_GATHERED: Any = [
    ("publish", 0), ("publish", 1), ("publish", 1), ("cut", 0), ("leave", 0), ("cut", 1), ("leave", 0), ("turn", 0),
    ("kill", 0),
]  # fmt: skip
OFFERED_WHILE_MORE_IS_GATHERED: Any = [
    ("publish", 0), ("publish", 0), ("publish", 0), ("turn", 0), ("publish", 0), ("leave", 0), ("turn", 0), ("kill", 0),
]  # fmt: skip
"""The id of a message was on the disk without it."""


@settings(max_examples=60, deadline=None)
@given(steps)
@example(SERVED_WHILE_ANOTHER_IS_GATHERED)
def test_what_devices_send_leaves_the_node_whatever_room_it_has_and_whenever_it_dies(plan: list[tuple[str, int]]) -> None:
    async def play() -> None:
        await Devices().play(plan)

    asyncio.run(play())


@settings(max_examples=60, deadline=None)
@given(steps)
@example(OFFERED_WHILE_MORE_IS_GATHERED)
def test_what_a_remote_sends_leaves_the_node_whatever_room_it_has_and_whenever_it_dies(plan: list[tuple[str, int]]) -> None:
    async def play() -> None:
        await Remotes().play(plan)

    asyncio.run(play())
