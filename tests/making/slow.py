"""A storage engine whose sync is in the test's hand."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.storage.memory import MemoryEngine


class SlowEngine(MemoryEngine):
    """Whoever waits for a sync is told when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []
        self.unhurried: list[Callable[[], None]] | None = None  # who has time until a sync runs, if the test collects them

    def while_syncing(self, callback: Callable[[], None]) -> None:
        if self.unhurried is None:
            callback()
        else:
            self.unhurried.append(callback)

    def when_synced(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def sync(self, count: int | None = None) -> None:
        """So many of those who wait are told, in order; all, unless said otherwise."""
        count = len(self.waiting) if count is None else count
        told, self.waiting = self.waiting[:count], self.waiting[count:]
        for callback in told:
            callback()
