"""A store whose syncs wait until they are let go."""

from __future__ import annotations

import asyncio

from bridgehead.storage.rocks import RocksEngine


class HeldDisk:
    """Stands between an engine and its store."""

    def __init__(self, engine: RocksEngine) -> None:
        self._store = engine._store
        self._held: bool | None = False  # whether a sync waits; None: they do not wait any more
        self.flushed = self._store.flushed
        self.end_flush = self._store.end_flush
        self.begun = asyncio.Event()
        self.syncs = 0
        engine._syncing._disk = self

    def begin_flush(self) -> None:
        self.syncs += 1
        if self._held is None:
            self._store.begin_flush()
        else:
            self._held = True
        self.begun.set()

    def let_go(self) -> None:
        held, self._held = self._held, None
        if held:
            self._store.begin_flush()
