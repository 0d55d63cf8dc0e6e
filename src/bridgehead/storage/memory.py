"""The engine that promises nothing beyond the life of the process: dictionaries, and a new incarnation at each start."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from bridgehead.columns.batches import Batch, weight
from bridgehead.storage.engine import Changes, Shape, Shelf, keep_state, states_under
from bridgehead.storage.losses import Losses


class MemoryEngine:
    """Implements Engine in RAM; a write is safe, as far as memory goes, when it returns."""

    durable = False
    sync_times = None
    spoken_for = 0

    def __init__(self) -> None:
        self.incarnation = secrets.token_hex(8)
        self.losses = Losses()
        self._shelves: defaultdict[Shelf, dict[int, Batch]] = defaultdict(dict)
        self._state: dict[Shelf, Any] = {}
        self._notes: defaultdict[Shelf, dict[int, int]] = defaultdict(dict)

    def write(self, changes: Changes) -> None:
        for shelf, number, batch in changes.puts:
            self._shelves[shelf][number] = batch
        for shelf, number in changes.drops:
            del self._shelves[shelf][number]
        keep_state(self._state, changes)
        for shelf, number, note in changes.notes:
            if note is None:
                self._notes[shelf].pop(number, None)
            else:
                self._notes[shelf][number] = note
        for each in changes.when_safe:
            self.when_synced(each)

    def when_synced(self, callback: Callable[[], None]) -> None:
        callback()

    def between_syncs(self, callback: Callable[[], None]) -> None:
        callback()

    def while_syncing(self, callback: Callable[[], None]) -> None:
        callback()

    def hurry_sync(self) -> None:
        """There is none."""

    def read(self, shelf: Shelf, number: int) -> Batch:
        return self._shelves[shelf][number]

    def numbers(self, shelf: Shelf) -> Iterator[int]:
        return iter(sorted(self._shelves[shelf]))

    def shapes(self, shelf: Shelf) -> Iterator[tuple[int, Shape]]:
        for number, batch in sorted(self._shelves.get(shelf, {}).items()):
            yield number, Shape(batch.num_rows, weight(batch))

    def state(self, shelf: Shelf) -> Any:
        return self._state.get(shelf)

    def states(self, prefix: Shelf) -> Iterator[tuple[Shelf, Any]]:
        return states_under(self._state, prefix)

    def notes(self, shelf: Shelf) -> Iterator[tuple[int, int]]:
        return iter(sorted(self._notes.get(shelf, {}).items()))

    def give_back(self) -> None:
        """What was deleted is gone already."""

    def close(self) -> None:
        self._shelves.clear()
        self._state.clear()
        self._notes.clear()
