"""When what was written is safe, and who is told.

One sync covers everything written before it began; whoever comes while it runs is covered by the next. The loop goes on
meanwhile: the next batch is read, the last one is acknowledged by whoever it was for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from bridgehead.clock import monotonic

REST: Final = 0.05
"""Seconds after a sync in which nothing must have been written."""

PATIENCE: Final = 0.001
"""Seconds that work which nobody waits for waits for a sync."""


class Disk(Protocol):
    """Makes everything written so far safe: ``flushed`` is readable when what was begun can be ended."""

    @property
    def flushed(self) -> int: ...

    def begin_flush(self) -> None: ...

    def end_flush(self) -> None: ...


@dataclass(slots=True)
class SyncTimes:
    """What syncs have taken so far, from the moment one begins to that in which the loop hears of its end."""

    count: int = 0
    seconds: float = 0.0

    def snapshot(self) -> dict[str, float]:
        return {"syncs": self.count, "syncSeconds": round(self.seconds, 6)}


class Syncing:
    """Used from the event loop."""

    def __init__(
        self, disk: Disk, on_failure: Callable[[BaseException], None], at_rest: Callable[[], None] = lambda: None
    ) -> None:
        """``at_rest`` is called when everything is safe and nobody has written for a moment."""
        self._disk = disk
        self._on_failure = on_failure
        self._at_rest = at_rest
        self._resting: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # that watches for the end of a sync
        self._written = 0  # writes so far
        self._safe = 0  # of these, how many are
        self._covers = 0  # how many will be when the running sync has ended
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()  # (how many writes must be safe, whom to tell)
        self._between: list[Callable[[], None]] = []  # whom to tell when the running sync has ended
        self._during: list[Callable[[], None]] = []  # whom to tell when a sync runs
        self._patience: asyncio.TimerHandle | None = None  # of those
        self.times = SyncTimes()
        self._begun = 0.0  # when the last one has begun
        self._running = False  # a sync is under way, or due
        self._due: asyncio.Handle | None = None  # the beginning of one
        self._telling = False  # those are told whose writes are safe, and those who waited for that moment write
        self._closed = False

    def wrote(self) -> None:
        self._written += 1

    def all_safe(self) -> None:
        """Whoever asked for no syncs: what is written is safe enough."""
        self._safe = self._written

    def when_safe(self, callback: Callable[[], None]) -> None:
        """Call back when everything written so far is safe: now, if it is.

        Never, once a write or a sync has failed: whoever asks may have changed something that could not be written.
        """
        if self._closed:
            return
        if self._safe == self._written and not self._waiting:
            callback()
            return
        self._waiting.append((self._written, callback))
        self._begin()

    def between(self, callback: Callable[[], None]) -> None:
        """Call back when no sync runs: now, or when the running one has ended, before another one begins."""
        if self._running:
            self._between.append(callback)
        else:
            callback()

    def during(self, callback: Callable[[], None]) -> None:
        """Call back while a sync runs and the loop has time: now, when the next one has begun, or in a moment if none does."""
        if self._running and self._due is None:
            callback()
            return
        self._during.append(callback)
        if self._patience is None and not self._closed:
            self._patience = asyncio.get_running_loop().call_later(PATIENCE, self._use_the_time)

    def _use_the_time(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        during, self._during = self._during, []
        for each in during:  # not from here: whoever has begun a sync is not done yet
            asyncio.get_running_loop().call_soon(each)

    def hurry(self) -> None:
        """Begin the sync that is due, if one is: whoever has the most to write in this turn of the loop has written it."""
        if self._due is not None and not self._telling:
            self._due.cancel()
            self._sync()

    def _begin(self) -> None:
        if not self._running and not self._closed:
            loop = asyncio.get_running_loop()
            self._running = True
            if loop is not self._loop:
                self._watch(loop)
            self._due = loop.call_soon(self._sync)  # not now: what else this turn of the loop writes is covered too

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self._disk.flushed, self._ended)

    def _sync(self) -> None:
        self._due = None
        if self._closed:
            return
        self._covers, self._begun = self._written, monotonic()
        try:
            self._disk.begin_flush()
        except Exception as error:
            self._fail(error)
        else:
            self._use_the_time()

    def _ended(self) -> None:
        try:
            self._disk.end_flush()
        except Exception as error:
            if not self._closed:  # otherwise somebody has been told already
                self._fail(error)
        else:
            if not self._closed:
                self._done()

    def _done(self) -> None:
        self.times.count += 1
        self.times.seconds += monotonic() - self._begun
        self._running, self._telling = False, True
        self._safe = max(self._safe, self._covers)
        between, self._between = deque(self._between), []
        try:
            while self._waiting and self._waiting[0][0] <= self._safe:
                self._waiting.popleft()[1]()
            while between:
                between.popleft()()
        finally:  # a fault of one of them keeps nobody else waiting
            for left in between:
                asyncio.get_running_loop().call_soon(left)
            self._telling = False
            self._go_on()

    def _go_on(self) -> None:
        if self._closed:
            return
        if self._waiting:
            self._begin()
            self.hurry()
        elif self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(REST, self._rest)

    def _rest(self) -> None:
        self._resting = None
        if self._safe == self._written and not self._closed:
            self._at_rest()

    def _fail(self, error: BaseException) -> None:
        """Another sync might succeed without what this one lost: nobody is told any more."""
        self.stop()
        self._on_failure(error)

    def stop(self) -> None:
        """Whoever still waits is not told."""
        self._closed = True
        self._waiting.clear()
        self._between.clear()
        self._during.clear()
        for timer in (self._resting, self._patience):
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Stop, and listen no more: nobody will ask when a sync that is under way has ended."""
        self.stop()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._disk.flushed)
