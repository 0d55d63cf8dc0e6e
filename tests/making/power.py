"""A storage engine that outlives its process as far as a disk would: what was not synced may be lost, always from the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine


class PowerEngine(MemoryEngine):
    """``automatic``: whoever waits for a sync is told at once; otherwise the test says when."""

    durable = True

    def __init__(self, *, automatic: bool = True) -> None:
        super().__init__()
        self.automatic = automatic
        self.written: list[Changes] = []
        self.synced = 0  # so many writes are safe
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._between: list[Callable[[], None]] = []

    def write(self, changes: Changes) -> None:
        self.written.append(replace(changes, state=dict(changes.state), notes=list(changes.notes), when_safe=[]))
        super().write(changes)

    def when_synced(self, callback: Callable[[], None]) -> None:
        if self.automatic:
            self.synced = len(self.written)
        if self.synced == len(self.written) and not self._waiting:
            callback()
        else:
            self._waiting.append((len(self.written), callback))

    def between_syncs(self, callback: Callable[[], None]) -> None:
        """As long as something is not safe a sync runs."""
        if self.unsynced and not self.automatic:
            self._between.append(callback)
        else:
            callback()

    @property
    def unsynced(self) -> int:
        return len(self.written) - self.synced

    def sync(self) -> None:
        """Everything written so far is safe."""
        self.synced = len(self.written)
        between, self._between = self._between, []
        while self._waiting and self._waiting[0][0] <= self.synced:
            self._waiting.pop(0)[1]()
        for each in between:
            each()

    def crash(self, lose: int = 0) -> PowerEngine:
        """What the next life finds when so many writes are lost (a kill loses none, a power cut up to all unsynced)."""
        assert lose <= self.unsynced
        after = PowerEngine(automatic=self.automatic)
        for changes in self.written[: len(self.written) - lose]:
            after.write(changes)
        after.synced = len(after.written)
        self._waiting.clear()
        self._between.clear()
        return after
