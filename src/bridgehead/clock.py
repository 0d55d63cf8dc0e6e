"""The only module that asks the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_us() -> int:
    """Wall-clock microseconds since the epoch: what ``received_at`` holds."""
    return time.time_ns() // 1000


def utc_stamp() -> str:
    """Now, as part of a file's name; sorts as time does."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def monotonic() -> float:
    """Seconds of a clock that never jumps: timers, back-off, keep alive."""
    return time.monotonic()
