"""A few numbers that generator, counter and runner all see: one shared page of memory, each number with one writer."""

from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class Slot(IntEnum):
    SENT = 0           # generator: messages of this run handed to the kernel
    ARRIVED = 1        # counter: different messages of this run that have arrived
    LAST_ARRIVAL = 2   # counter: CLOCK_MONOTONIC ns of the newest of them
    CONNECTED = 3      # counter: connections that have sent their CONNECT and are still open


class Board:
    def __init__(self, path: Path, create: bool = False) -> None:
        self._slots: NDArray[np.int64] = np.memmap(path, dtype=np.int64, mode="w+" if create else "r+", shape=(64,))

    def get(self, slot: Slot) -> int:
        return int(self._slots[slot])

    def put(self, slot: Slot, value: int) -> None:
        self._slots[slot] = value
