"""Syncs of files in compiled code: a thread in it never needs the interpreter. ``syncthread`` says why and how."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from bridgehead.columns.kernels_jit import kernel

MOST_FILES = 2   # in one sync
NO_FILE = -1
STOP = -2        # in place of the first file

# Places in the numbers that both threads see: the files, and behind them
ERROR = 2        # of the last sync: 0, or its errno
ASKED = 3        # room for what is read from the descriptor through which one is asked
ANSWER = 4       # what is written to the other one
PLACES = 5

_NUMBER = 8      # bytes of each, and of what an event descriptor takes and gives

_fdatasync: Any = types.ExternalFunction("fdatasync", types.int32(types.int32))
_read: Any = types.ExternalFunction("read", types.int64(types.int32, types.intp, types.uint64))
_write: Any = types.ExternalFunction("write", types.int64(types.int32, types.intp, types.uint64))
_errno: Any = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())


@kernel
def serve_syncs(asked: int, answered: int, numbers: npt.NDArray[np.int64]) -> None:
    """Sync the files in ``numbers`` as often as ``asked`` says so, until the first one is STOP."""
    address = numbers.ctypes.data
    while _read(asked, address + ASKED * _NUMBER, _NUMBER) == _NUMBER and numbers[0] != STOP:
        error = 0
        for place in range(MOST_FILES):
            if error == 0 and numbers[place] != NO_FILE and _fdatasync(numbers[place]) != 0:
                error = _errno()[0]
        numbers[ERROR] = error
        _write(answered, address + ANSWER * _NUMBER, _NUMBER)


def warm() -> None:
    """Compile it, or load it: it returns at once."""
    asked = os.eventfd(1)
    numbers = np.full(PLACES, NO_FILE, np.int64)
    numbers[0] = STOP
    serve_syncs(asked, asked, numbers)
    os.close(asked)
