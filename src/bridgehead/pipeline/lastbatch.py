"""What is kept of a query with a memory, so that a batch which Spark repeats by its number is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class BatchName(NamedTuple):
    """A batch of a query with a memory. The query keeps its name as long as its checkpoint."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What is kept of a query with a memory: which batch it committed last, where that ended, and what it may remember."""

    query: str
    number: int
    end: int
    hops: int  # the highest hop count that it has taken in
    origin: int = 0  # its memory is of the rows from here on
    data_start: int = 0  # where the last batch that took rows in began
    idle: bool = False  # whether a batch without rows came behind that one

    def covers(self, start: int, end: int) -> bool:
        """Whether what another query makes of these rows has been committed: it rebuilds its memory."""
        return end <= self.end and (start < self.end or (start == end and self.idle))

    def behind(self, batch: BatchName) -> int | None:
        """How many batches behind this one it is; None if it is of another query: a new checkpoint begins anywhere."""
        return batch.number - self.number if batch.query == self.query else None

    @staticmethod
    def after(last: LastBatch | None, batch: BatchName, start: int, end: int, hops: int, rebuilt: int | None) -> LastBatch:
        """What is kept when this batch is committed. ``rebuilt``: where the memory of a new query was rebuilt from."""
        if rebuilt is not None and (last is None or last.query != batch.query):
            origin = rebuilt
        else:
            origin = start if last is None else last.origin
        if end > start or last is None:
            return LastBatch(*batch, end, hops, origin, data_start=start)
        return LastBatch(*batch, end, hops, origin, last.data_start, idle=True)
