"""A remote broker that follows the script of a test: it says and cuts exactly what and when the test says."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, TypeVar

from bridgehead.wire.decode import decode, frame
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Connack, Connect, Packet, Publish, Suback, Subscribe
from bridgehead.wire.reason import Reason

WITHIN = 20.0
"""A test that waits longer than this for a packet has failed."""

P = TypeVar("P")


class _Ending(asyncio.StreamReaderProtocol):
    """Closes when the peer has said its last, as brokers do."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


class Remote:
    """Listens on a loopback port; each connection is handed to the test."""

    def __init__(self, version: int = 5) -> None:
        self.version = version
        self.port = 0
        self._arrived: asyncio.Queue[Visit] = asyncio.Queue()
        self._visits: list[Visit] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> Remote:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            return _Ending(asyncio.StreamReader(limit=1 << 24), self._accept)

        self._server = await loop.create_server(protocol, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(reader, writer, self.version)
        self._visits.append(visit)
        self._arrived.put_nowait(visit)

    async def visit(self) -> Visit:
        """The next connection, before anything was said."""
        return await asyncio.wait_for(self._arrived.get(), WITHIN)

    async def accept(self, *, session_present: bool = False, **properties: Any) -> Visit:
        """The next connection, accepted; subscriptions are granted."""
        visit = await self.visit()
        visit.connect = await visit.next(Connect)
        visit.send(Connack(session_present, Reason.SUCCESS, properties))
        return visit

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in self._visits:
            visit.cut()
        await asyncio.sleep(0)


class Visit:
    """One connection of the uplink under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.connect = Connect()
        self._reader = reader
        self._writer = writer
        self._version = version

    def send(self, *packets: Packet) -> None:
        """All of them in one write."""
        self._writer.write(b"".join(encode(packet, self._version) for packet in packets))

    async def read(self) -> Packet | None:
        """The next packet, or None at the end of the connection."""
        try:
            return await asyncio.wait_for(self._read(), WITHIN)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _read(self) -> Packet:
        head = await self._reader.readexactly(2)
        while (found := frame(head, 300_000_000)) is None:
            head += await self._reader.readexactly(1)
        return decode(found[0], await self._reader.readexactly(found[2]), self._version)

    async def hear(self) -> bytes:
        """What comes next, in whatever language; empty at the end of the connection."""
        try:
            return await asyncio.wait_for(self._reader.read(1 << 16), WITHIN)
        except ConnectionError:
            return b""

    async def next(self, kind: type[P]) -> P:
        """The next packet, which is of this kind."""
        packet = await self.read()
        assert isinstance(packet, kind), packet
        return packet

    async def publishes(self, count: int) -> list[Publish]:
        return [await self.next(Publish) for _ in range(count)]

    async def granted(self) -> Subscribe:
        """The next packet is SUBSCRIBE, and gets what it wants."""
        packet = await self.next(Subscribe)
        self.send(Suback(packet.packet_id, [Reason(wish.qos) for wish in packet.subscriptions]))
        return packet

    async def silent(self) -> bool:
        """True if nothing more has come by the time that a reply to what was sent must be here."""
        await self._settled()
        return len(self._reader._buffer) == 0  # type: ignore[attr-defined]

    async def _settled(self) -> None:
        # Both ends live on this loop and loopback delivers at once: some turns of the loop are a full exchange.
        loop = asyncio.get_running_loop()
        for _ in range(20):
            due = loop.create_future()
            loop.call_soon(due.set_result, None)
            await due

    def pause(self) -> None:
        """Read nothing: the kernel's buffers fill up."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume(self) -> None:
        """Read again."""
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def end(self) -> None:
        """Close as a broker that stops does."""
        self._writer.close()

    def cut(self) -> None:
        """Break the connection: a reset, what was on its way is lost."""
        sock = self._writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
