"""A layer between the kernel's transport and a link: TLS, WebSocket, a tunnel through a proxy.

Towards the wire a layer is a protocol, towards what is above it a transport: layers stand on each other, and a link on top does
not know whether it has any. A link asks its transport how much of what it wrote the kernel has not taken. asyncio's own TLS
cannot answer that (what it has handed on to its socket counts as gone), so what is written is followed through every layer.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Final, Protocol, cast

import numpy as np

WIRE_SIZE: Final = 256 * 1024

# What one read brings is taken before the next one starts, so all layers of the loop that the kernel fills share one buffer.
_wire: Final = np.empty(WIRE_SIZE, np.uint8)


class Upper(Protocol):
    """What stands on a layer: another one, or a link. asyncio's own word for it knows less of its buffer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class LayerError(ConnectionError):
    """A layer cannot be, or cannot go on; the text says why, and is all that there is to say."""


class Layer(asyncio.BufferedProtocol, asyncio.Transport, ABC):
    """What all layers have in common. Whoever is above hears of the connection when the layer's own handshake is over.

    A layer that does not come that far tells why in the error of ``connection_lost``.
    """

    def __init__(self, upper: Upper, within: float) -> None:
        """``within``: seconds for the handshake."""
        super().__init__()
        self.upper = upper
        self._within = within
        self._timer: asyncio.TimerHandle | None = None
        self._lower: asyncio.Transport | None = None
        self._failure: LayerError | None = None  # why we end it
        self._read_into = _wire.data
        self.standing = False  # the handshake is over
        self.paused = False  # nobody above wants to read
        self._written = 0  # bytes from above
        self._taken = 0  # how many of them the kernel had taken when we last looked
        self._wire_written = 0  # bytes handed down
        # What was handed down and not taken when we last looked: (where it begins below, where it ends below, where above).
        self._way: deque[tuple[int, int, int]] = deque()

    # -- for the layers themselves ------------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> None:
        """The connection below stands: the first bytes of the handshake."""

    @abstractmethod
    def arrived(self, data: memoryview) -> None:
        """Bytes from below."""

    @abstractmethod
    def too_late(self) -> str:
        """Why the handshake that was not over in time failed."""

    @abstractmethod
    def cut_short(self) -> str:
        """What to say when the peer ends the connection during the handshake, without a word about it."""

    def stand(self) -> None:
        """The handshake is over."""
        self._stop_waiting()
        self.standing = True
        self.upper.connection_made(self)

    def fail(self, why: str) -> None:
        """The connection cannot be, or cannot go on."""
        self._failure = self._failure or LayerError(why)
        if self._lower is not None:
            self._lower.close()

    def peer_ended(self) -> None:
        """The peer has said that nothing more comes."""
        if self._lower is not None and self.standing:
            self.upper.eof_received()
            self.close()

    def hand_down(self, data: Any, carries: int = 0, head: int = 0) -> None:
        """Bytes for the layer below; ``carries`` says how many bytes from above they bring, behind ``head`` of our own."""
        if self._lower is None or not len(data):
            return
        begin = self._wire_written + head
        self._wire_written += len(data)
        if carries:
            self._written += carries
            self._way.append((begin, self._wire_written, self._written))
        self._lower.write(data)

    def throw_away(self, size: int) -> None:
        """Bytes from above that come too late: the kernel will never take them."""
        self._written += size

    @property
    def ending(self) -> bool:
        """Nothing more from above is sent."""
        return self._failure is not None or self.is_closing()

    @property
    def in_pieces(self) -> bool:
        """Whether the peer can read a part of what was handed down at once."""
        return False

    # -- towards the wire ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lower = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(self._within, self._give_up)
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._failure is None and not self.standing:
            self._failure = LayerError(f"{self.cut_short()}{f': {exc}' if exc else ''}")
        self._lower = None
        self.upper.connection_lost(self._failure or exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_into

    def buffer_updated(self, nbytes: int) -> None:
        self.arrived(self._read_into[:nbytes])

    def eof_received(self) -> None:
        if self.standing:
            self.upper.eof_received()

    def pause_writing(self) -> None:
        if self.standing:
            self.upper.pause_writing()

    def resume_writing(self) -> None:
        if self.standing:
            self.upper.resume_writing()

    def _give_up(self) -> None:
        self._timer = None
        self._failure = self._failure or LayerError(self.too_late())
        if self._lower is not None:
            self._lower.abort()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- towards the link ---------------------------------------------------------------------------------------------

    def get_write_buffer_size(self) -> int:
        """How many bytes from above the kernel has not taken."""
        if self._lower is not None:
            taken = self._wire_written - self._lower.get_write_buffer_size()
            while self._way and self._way[0][1] <= taken:
                self._taken = self._way.popleft()[2]
            if self._way and self.in_pieces:
                begin, end, above = self._way[0]
                return self._written - max(self._taken, above - (end - max(begin, min(taken, end))))
        return self._written - self._taken

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._lower is not None:
            self._lower.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._lower is None else self._lower.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._lower is None or self._lower.is_closing()

    def pause_reading(self) -> None:
        self.paused = True
        if self._lower is not None:
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        """What has come and was not asked for goes first."""
        self.paused = False
        if self._lower is not None:
            self._lower.resume_reading()
            asyncio.get_running_loop().call_soon(self.read_on)

    def read_on(self) -> None:
        """Hand up what is still here."""

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """We say no more, and still listen."""
        if self._lower is not None and self._lower.can_write_eof():
            self._lower.write_eof()

    def close(self) -> None:
        if self._lower is not None:
            self._lower.close()

    def abort(self) -> None:
        if self._lower is not None:
            self._lower.abort()
