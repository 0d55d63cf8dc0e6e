"""The engine that promises nothing beyond the life of the process: dictionaries, and a new incarnation at each start."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from bridgehead.columns.batches import Batch
from bridgehead.storage.engine import Changes, Shelf


class MemoryEngine:
    """Implements Engine in RAM; a write is safe, as far as memory goes, when it returns."""

    def __init__(self) -> None:
        self.incarnation = secrets.token_hex(8)
        self._shelves: defaultdict[Shelf, dict[int, Batch]] = defaultdict(dict)
        self._state: dict[Shelf, Any] = {}

    def write(self, changes: Changes) -> None:
        for shelf, number, batch in changes.puts:
            self._shelves[shelf][number] = batch
        for shelf, number in changes.drops:
            del self._shelves[shelf][number]
        self._state.update(changes.state)

    def when_synced(self, callback: Callable[[], None]) -> None:
        callback()

    def read(self, shelf: Shelf, number: int) -> Batch:
        return self._shelves[shelf][number]

    def numbers(self, shelf: Shelf) -> Iterator[int]:
        return iter(sorted(self._shelves[shelf]))

    def state(self, shelf: Shelf) -> Any:
        return self._state.get(shelf)

    def close(self) -> None:
        self._shelves.clear()
        self._state.clear()
