"""How every kernel is compiled, and how a kernel reads an Arrow buffer.

A kernel is a plain Python function that numba turns into machine code. It works on numpy arrays and integers only,
keeps no state of its own, and releases the interpreter lock while it runs.

The compiled code is cached on disk beside the source file. numba notices a change of that file, but not a change of a
function or a constant imported into it: therefore a kernel module imports nothing from other kernel modules but the
names below. The argument types are part of the cache key, also whether an array is read-only: the callers always pass
writeable, contiguous arrays, so that nothing is compiled behind `bridgehead.wire.kernels.warm`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

log = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba does not sync what it writes: after a loss of power half of a file may be there. Then it is compiled anew."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever half a pickle says
            log.warning("%s is compiled again, what was kept of it cannot be read: %r", self._name, error)
            self._keep(self.flush)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        self._keep(lambda: super(_Cache, self).save_overload(sig, data))

    def _keep(self, write: Callable[[], None]) -> None:
        """A disk without room costs the time of compiling at the next start, and not this one."""
        try:
            write()
        except OSError as error:
            log.warning("%s cannot be kept and will be compiled again: %s", self._name, error)


def kernel(function: Function) -> Function:
    """Compile `function` at its first call with given types, or load it from the cache.

    numba keeps the cache beside the source, or in the user's cache directory if that is read-only. Where neither can be
    written (a container without a home) the node still starts, and compiles at every start.
    """
    compiled: Any = njit(nogil=True)(function)
    try:
        compiled._cache = _Cache(function)
    except RuntimeError:
        log.info("there is no place to keep compiled code: it is compiled at every start")
    result: Function = compiled
    return result


# Arrow buffers reach a kernel as addresses: one table of numbers is a far cheaper argument than two dozen arrays, and
# buffers that are read-only and those that are not look the same. Whoever calls the kernel holds the buffers meanwhile.


def _peek(kind: Any) -> Any:
    """A function that reads one number of type `kind` at an address; to the kernel it is an int64."""

    def typed(typing_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer())
            return context.cast(builder, builder.load(place, align=1), kind, types.int64)

        return types.int64(types.int64), code

    return intrinsic(typed)


def _copy(typing_context: Any, target: Any, source: Any, length: Any) -> Any:
    """Copy `length` bytes from one address to another; the two do not overlap."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, at = (builder.inttoptr(address, cgutils.voidptr_t) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, at, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


peek_u8: Callable[[int], int] = _peek(types.uint8)
peek_i32: Callable[[int], int] = _peek(types.int32)
peek_i64: Callable[[int], int] = _peek(types.int64)
copy_bytes: Callable[[int, int, int], None] = intrinsic(_copy)
