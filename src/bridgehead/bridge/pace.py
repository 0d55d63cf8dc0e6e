"""How fast a bridge may send: a bucket of tokens that fills with time, one for each message."""

from __future__ import annotations

from typing import Final

BURST: Final = 0.1
"""Seconds of the rate that may be saved up: what a late timer leaves is caught up with, what an idle hour leaves is not."""
SLICE: Final = 0.01
"""Seconds of the rate that are waited for together: a fast rate is no reason to wake up for every message."""


class Pace:
    """Pure: the time is passed in. What must leave may be spent in advance; the bucket then fills from below zero."""

    def __init__(self, rate: float) -> None:
        """``rate``: messages a second."""
        self._rate = rate
        self._depth = max(rate * BURST, 1.0)
        self._slice = max(rate * SLICE, 1.0)
        self._tokens = self._depth
        self._at: float | None = None  # when the bucket was last filled

    def allowance(self, now: float) -> int:
        """How many messages may leave now."""
        if self._at is not None:
            self._tokens = min(self._tokens + (now - self._at) * self._rate, self._depth)
        self._at = now
        return max(int(self._tokens), 0)

    def spend(self, messages: int) -> None:
        self._tokens -= messages

    @property
    def due(self) -> float:
        """When it is worth to look again, after an allowance of none."""
        assert self._at is not None
        return self._at + max(self._slice - self._tokens, 0.0) / self._rate
