"""Numba's decorator, typed, and compiled when imported: no measurement ever waits for a compiler."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(signature: str) -> Callable[[Function], Function]:
    """Compile for exactly this signature, keep the machine code on disk for the next start."""
    return cast(Callable[[Function], Function], numba.njit(signature, cache=True, nogil=True))
