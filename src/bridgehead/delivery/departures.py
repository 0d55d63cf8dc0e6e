"""The last stretch of a connection: frames from the moment they are made until the kernel has taken them, in order.

Some frames may leave only when what was written for them is safe on the disk; whatever comes behind such a frame waits with
it, so that order is kept. Without such frames everything leaves at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from bridgehead.link.link import WRITE_HIGH, Link

SETTLE_EVERY: Final = 0.005
Seqs = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint16]
_NO_ROWS: Final[Seqs] = np.zeros(0, np.int64)
_NO_IDS: Final[Ids] = np.zeros(0, np.uint16)


class Queue(Protocol):
    """Whose rows leave, and who wants to know when those without an acknowledgement to come have left."""

    number: int

    def delivered(self, seqs: Seqs) -> None: ...


@dataclass(slots=True, eq=False)
class Departure:
    """Frames that leave together. Those of rows say whose they are."""

    data: Any
    queue: Queue | None = None
    unacknowledged: Seqs = field(default_factory=lambda: _NO_ROWS)  # rows without an acknowledgement to come
    ends: Seqs = field(default_factory=lambda: _NO_ROWS)  # where in data each of these ends
    ids: Ids = field(default_factory=lambda: _NO_IDS)  # of the rows with an acknowledgement to come
    expects: bool = False  # the next acknowledgement will be for something in here
    safe: bool = True  # what must be on the disk before is there


@dataclass(slots=True)
class _InSocket:
    """Rows sent without an acknowledgement to come: each is done when the kernel has taken its last byte."""

    queue: Queue
    seqs: Seqs
    ends: Seqs  # the position of each row's last byte among all that were written


@dataclass(frozen=True, slots=True)
class Remains:
    """What was still here when a connection ended: none of it has left."""

    rows: list[tuple[int, Seqs]]  # rows without an acknowledgement to come, by the number of their queue
    ids: Ids


class Departures:
    """``when_synced`` is the engine's; ``on_room`` is called when there is room again."""

    def __init__(self, when_synced: Callable[[Callable[[], None]], None], on_room: Callable[[], None]) -> None:
        self._when_synced = when_synced
        self._on_room = on_room
        self._link: Link | None = None
        self._held: deque[Departure] = deque()  # the first of them waits for the disk
        self._held_bytes = 0
        self._in_socket: deque[_InSocket] = deque()
        self._settler: asyncio.TimerHandle | None = None
        self._expect_after = 0  # no acknowledgement can be expected before the kernel has taken this many bytes

    @property
    def writable(self) -> bool:
        return self._link is not None and self._link.writable and self._held_bytes < WRITE_HIGH

    @property
    def holding(self) -> bool:
        """Whether frames wait for the disk."""
        return bool(self._held)

    @property
    def in_socket(self) -> int:
        return sum(len(run.seqs) for run in self._in_socket)

    def taken(self, *, in_flight: bool) -> int:
        """Bytes that the kernel has taken, up to those that the next acknowledgement waits for."""
        if self._link is None or not (in_flight or self._in_socket):
            return 0
        return min(self._link.taken, self._expect_after) if in_flight else self._link.taken

    def expect(self) -> None:
        """From here on an acknowledgement can be expected when the kernel has taken what was written so far."""
        if self._link is not None:
            self._expect_after = self._link.written

    def attach(self, link: Link) -> None:
        self._link = link

    def detach(self) -> Remains:
        """The connection is gone, and what was not taken with it. Rows that were taken are done."""
        self.settle()
        rows = [(run.queue.number, run.seqs) for run in self._in_socket]
        rows += [(held.queue.number, held.unacknowledged) for held in self._held if held.queue is not None]
        remains = Remains(rows, np.concatenate([_NO_IDS, *(held.ids for held in self._held)]))
        self._in_socket.clear()
        self._held.clear()
        self._held_bytes = 0
        self._link = None
        return remains

    def stop(self) -> None:
        if self._settler is not None:
            self._settler.cancel()

    def send(self, departure: Departure, *, after_sync: bool) -> None:
        """In order; ``after_sync``: not before everything that was written until now is safe."""
        if not after_sync and not self._held:
            self._leave(departure)
            return
        self._held.append(departure)
        self._held_bytes += len(departure.data)
        if after_sync:
            departure.safe = False
            self._when_synced(lambda: self._synced(departure))

    def _synced(self, departure: Departure) -> None:
        departure.safe = True
        full = self._held_bytes >= WRITE_HIGH
        while self._held and self._held[0].safe:
            first = self._held.popleft()
            self._held_bytes -= len(first.data)
            self._leave(first)
        self.settle()
        if full and self._held_bytes < WRITE_HIGH:
            self._on_room()

    def _leave(self, departure: Departure) -> None:
        link = self._link
        if link is None:
            return
        start = link.written
        link.write(departure.data)
        if departure.expects:
            self._expect_after = link.written
        if departure.queue is not None and len(departure.unacknowledged):
            self._in_socket.append(_InSocket(departure.queue, departure.unacknowledged, start + departure.ends))

    def settle(self) -> None:
        """Rows whose last byte the kernel has taken are done."""
        if self._link is None or not self._in_socket:
            return
        taken = self._link.taken
        while self._in_socket:
            run = self._in_socket[0]
            done = int(np.searchsorted(run.ends, taken, side="right"))
            run.queue.delivered(run.seqs[:done])
            if done < len(run.seqs):
                run.seqs, run.ends = run.seqs[done:], run.ends[done:]
                break
            self._in_socket.popleft()
        if self._in_socket and self._settler is None:
            self._settler = asyncio.get_running_loop().call_later(SETTLE_EVERY, self._settle_later)

    def _settle_later(self) -> None:
        self._settler = None
        self.settle()
