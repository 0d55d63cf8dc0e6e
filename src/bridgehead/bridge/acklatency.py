"""How long the remote takes to acknowledge: a histogram that the hot path hardly notices.

When messages leave, their time is noted by packet id; when acknowledgements come, the times of their ids are looked up and
laid aside. That is one vector operation each, whatever the number of messages. Sorting into buckets happens for many
acknowledgements at once, or when somebody wants to see.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: the upper ends of the buckets; behind the last one there is one more without an end."""
FOLD_BATCHES: Final = 256
FOLD_ROWS: Final = 8_192
"""What is laid aside at most."""


class Histogram(NamedTuple):
    """``below``: (upper end, how many took no longer), the last of which are all; ``total``: the seconds of all of them."""

    below: list[tuple[float, int]]
    total: float


class AckLatency:
    """From the moment a message was first handed to the connection to PUBACK or PUBCOMP, outages in between included."""

    def __init__(self, last_id: int) -> None:
        self._sent_at = np.full(last_id + 1, np.nan)  # monotonic seconds by packet id; not a number: of an earlier life
        self._aside: list[tuple[float, npt.NDArray[np.float64]]] = []  # (when acknowledged, when each was sent)
        self._aside_rows = 0
        self._counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self._total = 0.0

    def sent(self, ids: npt.NDArray[np.uint16], now: float) -> None:
        if len(ids):
            self._sent_at.put(ids, now)

    def acknowledged(self, ids: npt.NDArray[np.uint16], now: float) -> None:
        if len(ids):
            self._aside.append((now, self._sent_at.take(ids)))
            self._aside_rows += len(ids)
            if self._aside_rows > FOLD_ROWS or len(self._aside) > FOLD_BATCHES:
                self._fold()

    def histogram(self) -> Histogram:
        self._fold()
        below = accumulate(self._counts.tolist())
        return Histogram(list(zip((*BOUNDS, float("inf")), below, strict=True)), self._total)

    def _fold(self) -> None:
        if not self._aside:
            return
        moments, sent = zip(*self._aside, strict=True)
        sent_at = np.concatenate(sent)
        last = np.cumsum([len(each) for each in sent]) - 1  # of each acknowledgement
        # What left together mostly comes back together: there are few runs of one departure and one acknowledgement.
        cuts = sent_at[1:] != sent_at[:-1]
        cuts[last[:-1]] = True
        ends = np.append(np.flatnonzero(cuts), last[-1])
        took = np.array(moments)[np.searchsorted(last, ends)] - sent_at[ends]
        known = ~np.isnan(took)
        took, rows = took[known], np.diff(ends, prepend=-1)[known]
        self._counts += np.bincount(np.searchsorted(BOUNDS, took), rows, len(self._counts)).astype(np.int64)
        self._total += float(took @ rows)
        self._aside, self._aside_rows = [], 0
