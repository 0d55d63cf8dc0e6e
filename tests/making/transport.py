"""A transport that a test holds in its hand: what was written, what the kernel has not taken, when it closes."""

from __future__ import annotations

import asyncio
from typing import Any


class FakeTransport(asyncio.Transport):
    """Takes every byte at once, until ``stuck``: from then on bytes stay in its buffer."""

    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.taken = bytearray()  # what the kernel has
        self.buffer = bytearray()  # what it has not
        self.stuck = False
        self.reading = True
        self.closed = False  # close() or abort() was called
        self.aborted = False
        self.ended = False  # write_eof() was called
        self.lost = False  # connection_lost was called
        self._high = 64 * 1024
        self._paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 40_000) if name == "peername" else default

    def write(self, data: Any) -> None:
        if self.closed:
            return  # as asyncio does: silently gone
        (self.buffer if self.stuck or self.buffer else self.taken).extend(data)
        if len(self.buffer) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def drain(self, size: int | None = None) -> None:
        """The kernel takes so many bytes, or all."""
        size = len(self.buffer) if size is None else size
        self.taken += self.buffer[:size]
        del self.buffer[:size]
        if not self.buffer:
            self.stuck = False
            if self._paused:
                self._paused = False
                self.protocol.resume_writing()
            if self.closed:
                self.lose()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self.buffer:
                asyncio.get_running_loop().call_soon(self.lose)

    def abort(self) -> None:
        if not self.aborted:
            self.closed = self.aborted = True
            self.buffer.clear()
            asyncio.get_running_loop().call_soon(self.lose)

    def lose(self, error: Exception | None = None) -> None:
        """The connection is gone; a buffer that was left is gone with it."""
        if not self.lost:
            self.closed = self.lost = True
            self.buffer.clear()
            self.protocol.connection_lost(error)

    def receive(self, data: bytes) -> None:
        """Bytes of the peer, in as many reads as the protocol's buffers make of them."""
        while data and not self.closed:
            assert self.reading, "nobody reads"
            view = self.protocol.get_buffer(-1)
            size = min(len(view), len(data))
            view[:size] = data[:size]
            self.protocol.buffer_updated(size)
            data = data[size:]


class Nobody:
    """The owner of a link whose conversation the test leads."""

    def link_opened(self) -> None: ...

    def link_data(self, data: Any, end: int) -> tuple[int, int]:
        return end, 0

    def link_closed(self, error: Exception | None) -> None: ...

    def link_writable(self) -> None: ...
