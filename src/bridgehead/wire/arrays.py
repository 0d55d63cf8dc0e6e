"""The one form in which arrays go into a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def prepared(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """The array, copied only if it is not yet of this type, contiguous and writeable.

    To numba each other form is another argument type, for which it would compile the kernel anew in mid-traffic.
    """
    flags = array.flags
    if array.dtype == kind and flags.c_contiguous and flags.writeable:
        return array
    return np.array(array, kind, order="C")
