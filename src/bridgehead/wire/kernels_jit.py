"""How every kernel is compiled, and how a kernel reads an Arrow buffer.

A kernel is a plain Python function that numba turns into machine code. It works on numpy arrays and integers only,
keeps no state of its own, and releases the interpreter lock while it runs.

The compiled code is cached on disk beside the source file. numba notices a change of that file, but not a change of a
function or a constant imported into it: therefore a kernel module imports nothing from other kernel modules but the two
names below. The argument types are part of the cache key, also whether an array is read-only: the callers always pass
writeable, contiguous arrays, so that nothing is compiled behind `bridgehead.wire.kernels.warm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` at its first call with given types, or load it from the cache."""
    compiled: Function = njit(cache=True, nogil=True)(function)
    return compiled


def _pointer(typing_context: Any, address: Any) -> Any:
    """Turn an integer address into a pointer for `numba.carray`.

    One table of addresses is a far cheaper argument than two dozen arrays, and Arrow buffers that are read-only and
    those that are not look the same to the kernel. Whoever calls the kernel holds the buffers meanwhile.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), code


pointer: Any = intrinsic(_pointer)
