"""Memory for what is handed to the kernel in a moment and then forgotten: used over and over, it stays in the caches."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

SCRATCH_BYTES: Final = 16 << 20
"""What one write needs at most, but for a few: those get memory of their own."""
_APART: Final = 64


class Scratch:
    def __init__(self, size: int = SCRATCH_BYTES) -> None:
        self._memory = np.empty(size, np.uint8)
        self._used = 0

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """So many bytes that are nobody else's until ``clear``."""
        start, end = self._used, self._used + size
        if end > len(self._memory):
            return np.empty(size, np.uint8)
        self._used = -(-end // _APART) * _APART
        return self._memory[start:end]

    def clear(self) -> None:
        """What was taken is not needed any more."""
        self._used = 0
