"""The forwarder of one push route: polls its outbox, and holds tier 2 while the remote is away.

Tier 2 is what has been polled and not sent: it is filled up to its bound while there is no connection, and goes first
when there is one. Beyond the bound the outbox keeps the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.storage.outbox import Outbox, Polled

TIER2_BYTES: Final = 64 * 1024 * 1024


class Forwarder:
    """One route's way to the uplink. ``number`` is its owner number in the uplink's packet id flow."""

    def __init__(self, number: int, outbox: Outbox, tier2_limit: int) -> None:
        self.number = number
        self.outbox = outbox
        self._limit = tier2_limit
        self._tier2: deque[Polled] = deque()
        self._tier2_bytes = 0

    @property
    def tier2(self) -> int:
        return sum(polled.rows for polled in self._tier2)

    @property
    def has_rows(self) -> bool:
        return bool(self._tier2) or self.outbox.has_waiting

    def hold(self) -> None:
        """There is no connection: take what comes into tier 2, up to its bound."""
        room = self._limit - self.tier2
        while room > 0 and self._tier2_bytes < TIER2_BYTES:
            polled = self.outbox.poll(room)
            if polled is None:
                return
            self._tier2.append(polled)
            self._tier2_bytes += polled.batch.nbytes
            room -= polled.rows

    def next(self, max_rows: int) -> Polled | None:
        """The rows to send now, oldest first."""
        if not self._tier2:
            return self.outbox.poll(max_rows) if self.outbox.has_waiting else None
        polled = self._tier2.popleft()
        if polled.rows > max_rows:
            polled, rest = polled.split(max_rows)
            self.give_back(rest)
        if not self._tier2:
            self._tier2_bytes = 0
        return polled

    def give_back(self, polled: Polled) -> None:
        """Rows taken and not sent: they go first again."""
        self._tier2.appendleft(polled)

    def return_all(self, unsent: npt.NDArray[np.int64]) -> None:
        """The connection is gone: these rows, and all of tier 2 behind them, wait in the outbox again, in order."""
        held = [polled.seqs for polled in self._tier2]
        self._tier2.clear()
        self._tier2_bytes = 0
        seqs = np.concatenate([unsent, *held])
        if len(seqs):
            self.outbox.reset(seqs)
