"""Tier 2 of a route: what has been polled and not sent, oldest first, bounded in rows and in bytes."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from bridgehead.storage.marks import Seqs
from bridgehead.storage.polled import Polled

TIER2_BYTES: Final = 64 * 1024 * 1024


class Tier2:
    """Its rows stay in the outbox, marked. What is given back may exceed the bound: it was inside before."""

    def __init__(self, most_rows: int) -> None:
        self._most_rows = most_rows
        self._runs: deque[tuple[Polled, int]] = deque()  # with the bytes of each
        self.rows = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def room(self) -> int:
        """How many rows may still be added."""
        return max(self._most_rows - self.rows, 0) if self._bytes < TIER2_BYTES else 0

    def add(self, polled: Polled) -> None:
        self._runs.append((polled, self._count(polled)))

    def put_back(self, polled: Polled) -> None:
        """These rows go first again."""
        self._runs.appendleft((polled, self._count(polled)))

    def take(self, most: int) -> Polled:
        """The oldest rows, some of one run."""
        polled, size = self._runs.popleft()
        self.rows -= polled.rows
        self._bytes -= size
        if polled.rows > most:
            polled, rest = polled.split(most)
            self.put_back(rest)
        return polled

    @property
    def first(self) -> Seqs:
        """The numbers of the oldest run."""
        return self._runs[0][0].seqs if self._runs else np.zeros(0, np.int64)

    def clear(self) -> list[Seqs]:
        """Everything leaves; returns the numbers of all rows, in order."""
        held = [polled.seqs for polled, _ in self._runs]
        self._runs.clear()
        self.rows = self._bytes = 0
        return held

    def _count(self, polled: Polled) -> int:
        size = int(polled.batch.nbytes)
        self.rows += polled.rows
        self._bytes += size
        return size
