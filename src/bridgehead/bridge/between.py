"""Rows of QoS 0 that never left when a connection ended, and stood before rows that are in flight.

If the remote has kept the session, what is in flight goes first on the next connection; these rows go in their places among it,
so that order is kept at every QoS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from bridgehead.storage.marks import Seqs

_NO_ROWS: Final[Seqs] = np.zeros(0, np.int64)
_BEHIND_ALL: Final = int(np.iinfo(np.int64).max)


class Between:
    """By the number of their queue, in rising order. They stay in their outbox, marked."""

    def __init__(self) -> None:
        self._rows: dict[int, Seqs] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def first(self) -> Mapping[int, int]:
        """The first of each queue."""
        return {queue: int(seqs[0]) for queue, seqs in self._rows.items()}

    def keep(self, queue: int, never_left: Seqs, in_flight: Seqs) -> Seqs:
        """Those of these rows that stand before one in flight; the others are returned: nothing goes before them."""
        never_left = np.sort(never_left)
        count = int(np.searchsorted(never_left, in_flight.max(initial=-1)))
        if count:
            self._rows[queue] = never_left[:count]
        return never_left[count:]

    def give_back(self, queue: int) -> Seqs:
        """All of a queue: they are somebody else's now."""
        return self._rows.pop(queue, _NO_ROWS)

    def give_all_back(self) -> dict[int, Seqs]:
        rows, self._rows = self._rows, {}
        return rows

    def take(self, following: tuple[int, int] | None, most: int) -> tuple[int, Seqs] | None:
        """A queue and rows of it that go now: before ``following``, the queue and row that go again next, if any.

        There must be some; None if they all stand further behind.
        """
        queue, end = following or (next(iter(self._rows)), _BEHIND_ALL)
        rows = self._rows.pop(queue, _NO_ROWS)
        count = min(int(np.searchsorted(rows, end)), most)
        if count < len(rows):
            self._rows[queue] = rows[count:]
        return (queue, rows[:count]) if count else None
