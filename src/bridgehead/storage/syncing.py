"""When what was written is safe, and who is told.

One sync covers everything written before it began; whoever comes while it runs is covered by the next. A sync that is quick
is done in the event loop itself: handing it to a thread and hearing from it again costs as much as the sync, and whoever has
sent something waits for it in either case. A disk that takes its time gets a thread, so that everybody else goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bridgehead import clock

QUICK: Final = 0.002
"""Seconds: a sync below this holds the loop no longer than a turn of it does."""

TRUST: Final = 16
"""Quick syncs until the loop waits for them itself; a slow one costs as much trust as so many have earned."""

MOST_TRUST: Final = 64
"""A disk that was quick for long may be slow a few times; one that has become slow is known soon."""


REST: Final = 0.05
"""Seconds after a sync in which nothing must have been written."""


class Syncing:
    """Used from the event loop. ``flush`` makes everything written so far safe, in whatever thread."""

    def __init__(
        self,
        flush: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        at_rest: Callable[[], None] = lambda: None,
    ) -> None:
        """``at_rest`` is called when everything is safe and nobody has written for a moment."""
        self._flush = flush
        self._on_failure = on_failure
        self._at_rest = at_rest
        self._resting: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "storage-sync")
        self._trust = 0
        self._written = 0  # writes so far
        self._safe = 0  # of these, how many are
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()  # (how many writes must be safe, whom to tell)
        self._between: list[Callable[[], None]] = []  # whom to tell when the running sync has ended
        self._running = False
        self._closed = False

    def wrote(self) -> None:
        self._written += 1

    def all_safe(self) -> None:
        """Whoever asked for no syncs: what is written is safe enough."""
        self._safe = self._written

    def when_safe(self, callback: Callable[[], None]) -> None:
        """Call back when everything written so far is safe: now, if it is."""
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

    def _begin(self) -> None:
        if self._running or self._closed:
            return
        self._running = True
        loop = asyncio.get_running_loop()
        if self._trust >= TRUST:
            loop.call_soon(self._sync_here)  # not now: what else this turn of the loop writes is covered too
        else:
            covers = self._written
            loop.run_in_executor(self._thread, self._timed).add_done_callback(lambda done: self._done_there(done, covers))

    def _timed(self) -> float:
        began = clock.monotonic()
        self._flush()
        return clock.monotonic() - began

    def _sync_here(self) -> None:
        if self._closed:
            return
        covers = self._written
        try:
            took = self._timed()
        except Exception as error:
            self._fail(error)
        else:
            if took >= QUICK:
                self._trust = max(self._trust - TRUST, 0)
            self._done(took, covers)

    def _done_there(self, done: asyncio.Future[float], covers: int) -> None:
        if done.cancelled() or self._closed:
            return
        error = done.exception()
        if error is not None:
            self._fail(error)
        else:
            self._done(done.result(), covers)

    def _done(self, took: float, covers: int) -> None:
        self._running = False
        if took < QUICK:  # a slow one says nothing here: a thread's time counts its wait for a busy interpreter, too
            self._trust = min(self._trust + 1, MOST_TRUST)
        self._safe = max(self._safe, covers)
        while self._waiting and self._waiting[0][0] <= self._safe:
            self._waiting.popleft()[1]()
        between, self._between = self._between, []
        for callback in between:
            callback()
        if self._waiting:
            self._begin()
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
        if self._resting is not None:
            self._resting.cancel()

    def close(self) -> None:
        """Stop, and wait for a sync that is under way."""
        self.stop()
        self._thread.shutdown(wait=True)
