"""What a poll of an outbox hands out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridgehead.columns.batches import Batch
from bridgehead.storage.marks import Seqs


@dataclass(frozen=True, slots=True)
class Polled:
    """Polled rows, marked: numbers [first, first + rows), or those of ``chosen`` where some were left out."""

    first: int
    batch: Batch
    chosen: Seqs | None = None

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    @property
    def seqs(self) -> Seqs:
        """The sequence number of each row, rising."""
        return self.chosen if self.chosen is not None else np.arange(self.first, self.first + self.rows, dtype=np.int64)

    def split(self, rows: int) -> tuple[Polled, Polled]:
        """The leading rows, and those behind them."""
        chosen, (lead, rest) = self.chosen, (self.batch.slice(0, rows), self.batch.slice(rows))
        if chosen is None:
            return Polled(self.first, lead), Polled(self.first + rows, rest)
        return Polled(self.first, lead, chosen[:rows]), Polled(int(chosen[rows]), rest, chosen[rows:])
