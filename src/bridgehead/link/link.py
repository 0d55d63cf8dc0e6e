"""One TCP connection: a shared read buffer, kept tails of incomplete packets, and a count of bytes the kernel took."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

READ_SIZE: Final = 256 * 1024
WRITE_HIGH: Final = 1024 * 1024
"""Above this many bytes in our own write buffer a sender stops handing over more."""

Buffer = npt.NDArray[np.uint8]

# A read is consumed before the next one starts, so all links of the loop share one buffer.
_shared: Final[Buffer] = np.empty(READ_SIZE, np.uint8)
_shared_view: Final = _shared.data


class LinkOwner(Protocol):
    """Who speaks MQTT over a link."""

    def link_opened(self) -> None: ...

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        """Take complete packets of data[:end]; returns (bytes taken, size of the incomplete packet behind them or 0)."""

    def link_closed(self, error: Exception | None) -> None: ...

    def link_writable(self) -> None:
        """The write buffer has room again."""


class Link(asyncio.BufferedProtocol):
    """The shell: it moves bytes and knows nothing of MQTT."""

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._kept = b""  # the incomplete packet at the end of the last read
        self._large: Buffer | None = None  # its own buffer when it is larger than the shared one
        self._filled = 0  # how much of _large holds data
        self._written = 0  # bytes ever handed to the transport
        self._taken = 0  # how many of them the kernel had taken when we last looked
        self.closing = False  # we have said that it ends
        self._ended = False  # nothing that is still in our write buffer will reach the peer
        self._deaf = False  # what still comes is thrown away
        self.opened = False
        self.writable = True
        self.reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's, they only look alike
        stream = cast("asyncio.Transport", transport)
        self._transport = stream
        self.opened = True
        stream.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_HIGH // 4)
        self._owner.link_opened()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and not self._ended:
            self._taken = self._written  # a close that ran dry
        # Otherwise the buffer was thrown away before we were told: what we saw last is what we know.
        self.closing = self._ended = True
        self.writable = False
        if exc is not None:
            self._hear_out()
        self._transport = None
        self._owner.link_closed(exc)

    def _hear_out(self) -> None:
        """A write that met a reset ended the connection before its last read: what the peer had said is still in the kernel."""
        wire = self._transport.get_extra_info("socket") if self._transport is not None else None
        with suppress(OSError):  # nothing is left
            while wire is not None and self.reading and (count := os.readv(wire.fileno(), [self.get_buffer(-1)])):
                self.buffer_updated(count)

    def eof_received(self) -> None:
        """The peer has ended: the transport closes, and what it may still push out finds nobody."""
        self._look()
        self._ended = True

    def get_buffer(self, sizehint: int) -> Any:
        if self._large is not None:
            return self._large.data[self._filled :]
        if self._kept:
            _shared_view[: len(self._kept)] = self._kept
            return _shared_view[len(self._kept) :]
        return _shared_view

    def buffer_updated(self, nbytes: int) -> None:
        if self._deaf:
            return
        if self._large is not None:
            self._filled += nbytes
            data, end = self._large, self._filled
        else:
            data, end = _shared, len(self._kept) + nbytes
        taken, need = self._owner.link_data(data, end)
        self._keep(data, taken, end, need)

    def _keep(self, data: Buffer, taken: int, end: int, need: int) -> None:
        rest = end - taken
        if max(need, rest) < READ_SIZE // 2:
            self._large, self._filled = None, 0
            self._kept = data[taken:end].tobytes()
            return
        # The buffer of a large packet doubles as its bytes arrive: a length that was only announced costs nothing.
        size = max(min(need + READ_SIZE, 2 * rest), READ_SIZE)
        if data is self._large and taken == 0 and len(data) > end:
            return
        grown = np.empty(size, np.uint8)
        grown[:rest] = data[taken:end]
        self._large, self._filled, self._kept = grown, rest, b""

    def write(self, data: Any) -> None:
        """Hand bytes over; they are gone for good only when ``taken`` has passed them."""
        if self._transport is not None and not self.closing and len(data):
            self._written += len(data)
            self._transport.write(data)
            self._look()

    @property
    def written(self) -> int:
        return self._written

    @property
    def taken(self) -> int:
        """How many of the bytes ever written the kernel has taken."""
        self._look()
        return self._taken

    def _look(self) -> None:
        if self._transport is not None and not self._ended:
            self._taken = self._written - self._transport.get_write_buffer_size()

    @property
    def peer(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if name else "?"

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self._look()
        if not self.closing:
            self.writable = True
            self._owner.link_writable()

    def pause_reading(self) -> None:
        if self.reading and self._transport is not None:
            self.reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.reading and self._transport is not None:
            self.reading = True
            self._transport.resume_reading()

    def finish(self) -> None:
        """Say no more, and throw away what still comes until the peer closes.

        With something unread a close is a reset, and the peer may throw away what we have written last.
        """
        if self._transport is not None and not self._transport.is_closing():
            self.closing, self.writable, self._deaf = True, False, True
            self.resume_reading()
            if self._transport.can_write_eof():
                try:
                    self._transport.write_eof()
                except OSError:  # the peer has reset the connection, and the loop does not know it yet
                    self.abort()

    def close(self) -> None:
        """Close after what was written has left."""
        if self._transport is not None:
            self.closing, self.writable = True, False
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what the kernel has not taken is not sent."""
        if self._transport is not None:
            self._look()
            self.closing, self._ended, self.writable = True, True, False
            self._transport.abort()
