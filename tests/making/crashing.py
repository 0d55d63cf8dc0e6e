"""A file-native engine that can be killed: the next life finds what the kernel had been handed.

Without a sync, so that what is written is safe at once: a kill takes the process, not the machine.
"""

from __future__ import annotations

from pathlib import Path

from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.lives import SOON_FULL


class Lives:
    """One directory for each life, each a copy of what the one before had left."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._engines: list[RocksEngine] = []

    def start(self) -> RocksEngine:
        self._engines.append(RocksEngine(self._place(len(self._engines)), sync=False, front_bytes=SOON_FULL))
        return self._engines[-1]

    def crash(self) -> RocksEngine:
        """The engine of the next life; whoever holds the old one may go on with it, to no effect."""
        copy_as_left(self._place(len(self._engines) - 1), self._place(len(self._engines)))
        return self.start()

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def _place(self, life: int) -> Path:
        return self._directory / f"life-{life}"
