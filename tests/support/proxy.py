"""A wire that can go wrong: a TCP port that hands on to another, and every fault a network has, at named moments.

``out`` is the way from whoever connects to the target, ``back`` the way from the target. A fault that lasts (hole, delay,
throttle, swallowing without a count) lasts until ``heal``. A black hole keeps what it is given: TCP would send it again, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from support.packets import Packets, Releases, is_resent, kind_of
from support.waiting import PATIENCE, free_port

READ = 65_536
SLICE = 512
"""A throttled wire hands on this many bytes at a time: a cut falls into the middle of packets."""


@dataclass(eq=False)
class Moment:
    """A packet of this kind is about to pass in this direction: it does not; ``do`` is done instead."""

    way: str
    kind: int
    do: Callable[[], None] | None
    left: int | None = 1  # so many more times; None = until heal
    happened: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.happened.wait(PATIENCE), f"no packet of kind {self.kind} came {self.way}"


class Pair:
    """The two halves of one connection."""

    def __init__(self, near: asyncio.StreamWriter) -> None:
        self.ends = [near]
        self.ended = 0  # directions in which whoever sent has said its last
        self.tasks: list[asyncio.Task[None]] = []

    def end(self, *, reset: bool) -> None:
        """Both ends are gone now; what the wire still held is lost."""
        for task in self.tasks:
            task.cancel()
        for end in self.ends:
            sock = end.get_extra_info("socket")
            if reset and sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()


class Proxy:
    """Closed when made: nobody can connect before ``open``."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.resent: Counter[str] = Counter()  # PUBLISH packets with DUP that were handed on, by direction
        self.swallowed: Counter[tuple[str, int]] = Counter()  # by direction and kind
        self.releases = {"out": Releases(), "back": Releases()}
        self._target = target
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._pairs: set[Pair] = set()
        self._moments: list[Moment] = []
        self._passing = _set_event()
        self._handing_on = 0  # directions in which something has been read and not yet handed on
        self._delay = 0.0
        self._rate = 0.0  # bytes a second; 0 = as fast as it goes

    # -- life ---------------------------------------------------------------------------------------------------------

    def open(self) -> Proxy:
        loop = self._loop = asyncio.new_event_loop()
        self._passing = _set_event()  # an event belongs to one loop
        self._thread = threading.Thread(target=loop.run_forever, name=f"proxy {self.port}", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), loop).result(PATIENCE)
        return self

    @property
    def is_open(self) -> bool:
        return self._loop is not None

    def close(self) -> None:
        """End every connection and refuse new ones."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        assert not thread.is_alive()
        loop.close()
        self._loop = self._thread = None

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _shut(self) -> None:
        assert self._server is not None
        self._server.close()
        self._end_all(reset=False)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one turn in which the transports close their sockets

    def is_quiet(self) -> bool:
        """Everything that was given to this wire is at its other end."""
        if self._loop is None:
            return True
        return asyncio.run_coroutine_threadsafe(self._holds_nothing(), self._loop).result(PATIENCE)

    async def _holds_nothing(self) -> bool:
        for _ in range(3):  # what a socket has just been read of is with its task after a turn
            ends = [end for pair in self._pairs for end in pair.ends if not end.is_closing()]
            if self._handing_on or any(_unread(end) or end.transport.get_write_buffer_size() for end in ends):
                return False
            await asyncio.sleep(0)
        return True

    # -- faults -------------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End every connection now; new ones are welcome."""
        self._do(lambda: self._end_all(reset=False))

    def reset(self) -> None:
        """The same with RST: the peers' kernels throw away what they had."""
        self._do(lambda: self._end_all(reset=True))

    def hole(self) -> None:
        """From now on nothing passes, and nobody is told."""
        self._do(self._passing.clear)

    def delay(self, seconds: float) -> None:
        """Everything arrives so much later."""
        self._delay = seconds

    def throttle(self, rate: float) -> None:
        """So many bytes a second, in small pieces."""
        self._rate = rate

    def swallow(self, kind: int, count: int | None = 1, way: str = "back") -> Moment:
        """Exactly the next packets of this kind vanish; count None: all of them until ``heal``."""
        return self._arm(Moment(way, kind, None, count))

    def at(self, kind: int, do: Callable[[], None], way: str = "back") -> Moment:
        """When the next packet of this kind is about to pass: ``wire.at(PUBACK, wire.cut)``."""
        return self._arm(Moment(way, kind, do))

    def heal(self) -> None:
        """A wire like any other again; what was held back arrives."""
        self._delay = self._rate = 0.0
        self._do(self._heal)

    def _heal(self) -> None:
        self._moments.clear()
        self._passing.set()

    def _arm(self, moment: Moment) -> Moment:
        self._do(lambda: self._moments.append(moment))
        return moment

    def _end_all(self, *, reset: bool) -> None:
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.end(reset=reset)

    def _do(self, work: Callable[[], None]) -> None:
        """Work is done on the loop: at once if we are there or if there is none."""
        if self._loop is None or threading.current_thread() is self._thread:
            work()
            return

        async def there() -> None:
            work()

        asyncio.run_coroutine_threadsafe(there(), self._loop).result(PATIENCE)

    # -- the wire -----------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        pair = Pair(near)
        try:
            back, far = await asyncio.open_connection("127.0.0.1", self._target)
        except (OSError, asyncio.CancelledError):
            pair.end(reset=False)
            return
        pair.ends.append(far)
        self._pairs.add(pair)
        pair.tasks = [
            asyncio.create_task(self._pump(pair, "out", reader, far)),
            asyncio.create_task(self._pump(pair, "back", back, near)),
        ]

    async def _pump(self, pair: Pair, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        packets = Packets()
        with contextlib.suppress(OSError):  # the end of a connection is what a wire is here for
            while data := await reader.read(READ):
                self._handing_on += 1
                try:
                    if self._delay:
                        await asyncio.sleep(self._delay)
                    await self._passing.wait()
                    for packet in packets.feed(data):
                        if pair not in self._pairs or writer.is_closing():
                            return
                        self.releases[way].saw(packet)
                        if not self._is_taken(way, packet):
                            self.resent[way] += is_resent(packet)
                            await self._hand_on(packet, writer)
                    await writer.drain()
                finally:
                    self._handing_on -= 1
        await self._passing.wait()  # that a connection has ended does not pass a hole either
        with contextlib.suppress(OSError):
            writer.write_eof()
            await writer.drain()
        # What goes the other way may still be on its way: a close with something unread would be a reset.
        pair.ended += 1
        if pair.ended == len(pair.ends):
            for end in pair.ends:
                end.close()

    async def _hand_on(self, packet: bytes, writer: asyncio.StreamWriter) -> None:
        if not self._rate:
            writer.write(packet)
            return
        for start in range(0, len(packet), SLICE):
            piece = packet[start : start + SLICE]
            writer.write(piece)
            if self._rate:
                await asyncio.sleep(len(piece) / self._rate)

    def _is_taken(self, way: str, packet: bytes) -> bool:
        """Whether somebody waits for this packet, to swallow it or to do something instead."""
        moment = next((each for each in self._moments if (each.way, each.kind) == (way, kind_of(packet))), None)
        if moment is None:
            return False
        if moment.left is not None:
            moment.left -= 1
            if moment.left == 0:
                self._moments.remove(moment)
        moment.happened.set()
        if moment.do is not None:
            moment.do()
        else:
            self.swallowed[way, moment.kind] += 1
        return True


def _unread(end: asyncio.StreamWriter) -> int:
    """Bytes that the kernel has for this end and nobody has read."""
    return int(struct.unpack("i", fcntl.ioctl(end.get_extra_info("socket").fileno(), termios.FIONREAD, b"\0" * 4))[0])


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
