"""The only module that asks the time."""

from __future__ import annotations

import time


def now_us() -> int:
    """Wall-clock microseconds since the epoch: what ``received_at`` holds."""
    return time.time_ns() // 1000


def monotonic() -> float:
    """Seconds of a clock that never jumps: timers, back-off, keep alive."""
    return time.monotonic()
