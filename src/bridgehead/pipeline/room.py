"""How much room a route has left, where a full queue makes publishers wait (strategy ``refuse``).

What is on its way through the pipeline counts as much as what is in the outbox: so a message that was admitted always lands.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bridgehead.storage.journal import Journal
from bridgehead.storage.outbox import Outbox


class Room:
    """The room of one route: its limits less its outbox and what waits for it in the journal."""

    def __init__(self, outbox: Outbox, journal: Journal) -> None:
        self._outbox = outbox
        self._journal = journal

    def surely_fits(self, rows: int, size: int) -> bool:
        """Whether so much fits, told without counting; False means that somebody has to count."""
        outbox, route = self._outbox, self._outbox.route
        return (
            outbox.depth + self._journal.waiting_of(route) + rows <= outbox.max_rows
            and outbox.live_weight + self._journal.waiting_weight_of(route) + size <= outbox.max_bytes
        )

    def fitting(self, weights: npt.NDArray[np.int64]) -> int:
        """How many leading ones of rows with these weights fit: those in front of which a row and a byte are free."""
        outbox, route = self._outbox, self._outbox.route
        rows = outbox.max_rows - outbox.depth - self._journal.waiting_of(route)
        size = outbox.max_bytes - outbox.live_weight - self._journal.waiting_weight_of(route)
        within = int(np.searchsorted(np.cumsum(weights) - weights, size))
        return max(min(rows, within, len(weights)), 0)
