"""A client of the broker under test, byte for byte in the test's hand."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from bridgehead.broker.broker import Broker
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Connack, Connect, Packet, Publish, Suback, Subscribe, Subscription
from making.packets import split
from making.transport import FakeTransport

P = TypeVar("P")


async def turn() -> None:
    """Let the event loop do what is due: a tick, and what it has called for soon."""
    loop = asyncio.get_running_loop()
    for _ in range(3):
        due = loop.create_future()
        loop.call_soon(due.set_result, None)
        await due


class Device:
    def __init__(self, broker: Broker, version: int = 5) -> None:
        self.connection = broker.new_connection()
        self.version = version
        self.transport = FakeTransport(self.connection.link)
        self.connection.link.connection_made(self.transport)

    def send(self, *packets: Packet | bytes) -> None:
        """All of them in one read."""
        self.transport.receive(b"".join(p if isinstance(p, bytes) else encode(p, self.version) for p in packets))

    def received(self) -> list[Packet]:
        """What came since the last call."""
        packets, rest = split(bytes(self.transport.taken), self.version)
        self.transport.taken[:] = rest
        return packets

    def received_of(self, kind: type[P]) -> list[P]:
        return [packet for packet in self.received() if isinstance(packet, kind)]

    def connect(self, client_id: str, **given: Any) -> Connack:
        self.send(Connect(protocol_level=self.version, client_id=client_id, **given))
        first = self.received()[0]
        assert isinstance(first, Connack)
        return first

    def subscribe(self, *filters: str, qos: int = 2, identifier: int = 0, **options: Any) -> list[Packet]:
        """Returns what came behind the SUBACK."""
        properties: dict[str, Any] = {"subscription_identifier": identifier} if identifier else {}
        wishes = [Subscription(one, qos=qos, **options) for one in filters]
        self.send(Subscribe(1, wishes, properties))
        suback, *rest = self.received()
        assert isinstance(suback, Suback)
        return rest

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, packet_id: int = 0, **given: Any) -> None:
        self.send(Publish(topic, payload, qos, packet_id=packet_id or (1 if qos else 0), **given))
