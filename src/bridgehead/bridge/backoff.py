"""How long to wait before the next attempt: 1, 2, 4 ... 120 seconds, plus up to a quarter more by chance."""

from __future__ import annotations

import random
from typing import Final

FIRST: Final = 1.0
LONGEST: Final = 120.0
JITTER: Final = 0.25


class Backoff:
    """Pure: ``chance`` gives numbers in [0, 1)."""

    def __init__(self, first: float = FIRST, longest: float = LONGEST, chance: random.Random | None = None) -> None:
        self._first = first
        self._longest = longest
        self._chance = chance or random.Random()
        self.attempts = 0

    def next(self) -> float:
        """The delay after one more failure."""
        delay = min(self._first * float(1 << min(self.attempts, 16)), self._longest)
        self.attempts += 1
        return delay * (1 + JITTER * self._chance.random())

    def reset(self) -> None:
        self.attempts = 0
