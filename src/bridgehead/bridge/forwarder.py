"""The forwarder of one push route: polls its outbox, and holds tier 2 while the remote is away.

Tier 2 is what has been polled and not sent: it is filled up to its bound while there is no connection, and goes first
when there is one. Beyond the bound the outbox keeps the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.clock import now_us
from bridgehead.columns.expiry import older_than
from bridgehead.storage.outbox import TOO_OLD, Outbox, Polled

TIER2_BYTES: Final = 64 * 1024 * 1024


class Forwarder:
    """One route's way to the uplink. ``number`` is its owner number in the uplink's packet id flow."""

    def __init__(self, number: int, outbox: Outbox, tier2_limit: int, max_age: float | None = None) -> None:
        self.number = number
        self.outbox = outbox
        self._limit = tier2_limit
        self._max_age_us = None if max_age is None else round(max_age * 1_000_000)
        self._tier2: deque[Polled] = deque()
        self._tier2_bytes = 0
        outbox.holder = self

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
        """The rows to send now, oldest first; what has grown too old is dropped on the way."""
        while (polled := self._next(max_rows)) is not None and self._max_age_us is not None:
            old = older_than(polled.batch, self._max_age_us, now_us())
            if not old.any():
                break
            seqs = polled.seqs
            self.outbox.drop(seqs[old], TOO_OLD)
            if not old.all():
                young = seqs[~old]
                return Polled(int(young[0]), polled.batch.filter(pa.array(~old)), young)
        return polled

    def _next(self, max_rows: int) -> Polled | None:
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

    def held(self) -> npt.NDArray[np.int64]:
        """The numbers of the oldest run in tier 2."""
        if not self._tier2:
            return np.zeros(0, np.int64)
        return self._tier2[0].seqs

    def let_go(self, rows: int) -> None:
        """The outbox is full and drops its oldest rows: the first so many of that run."""
        oldest = self._tier2.popleft()
        self._tier2_bytes -= oldest.batch.nbytes
        if rows < oldest.rows:
            _, rest = oldest.split(rows)
            self._tier2.appendleft(rest)
            self._tier2_bytes += rest.batch.nbytes

    def return_all(self, unsent: npt.NDArray[np.int64]) -> None:
        """The connection is gone: these rows, and all of tier 2 behind them, wait in the outbox again, in order."""
        held = [polled.seqs for polled in self._tier2]
        self._tier2.clear()
        self._tier2_bytes = 0
        seqs = np.concatenate([unsent, *held])
        if len(seqs):
            self.outbox.reset(seqs)
