"""Latency buckets of constant relative width: 64 to each power of two, so a percentile is exact to 1.6 %."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.compiled import compiled

SUB_BITS = 6
SUB = 1 << SUB_BITS
BUCKETS = SUB * (64 - SUB_BITS)


@compiled("int64(int64)")
def bucket_of(nanoseconds: int) -> int:
    if nanoseconds < SUB:
        return max(nanoseconds, 0)
    shift = 0
    while (nanoseconds >> shift) >= 2 * SUB:
        shift += 1
    return (shift + 1) * SUB + (nanoseconds >> shift) - SUB


def middle_of(bucket: int) -> float:
    """The nanoseconds in the middle of a bucket."""
    if bucket < 2 * SUB:
        return float(bucket)
    shift = bucket // SUB - 1
    return float(((bucket % SUB + SUB) << shift) + (1 << shift) / 2)


def percentile_ms(buckets: NDArray[np.int64], share: float) -> float | None:
    """The latency that `share` of the messages did not exceed, in milliseconds; None when nothing was counted."""
    total = int(buckets.sum())
    if total == 0:
        return None
    index = int(np.searchsorted(np.cumsum(buckets), share * total))
    return middle_of(index) / 1e6
