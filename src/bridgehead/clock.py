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


def utc_text(moment_us: int) -> str:
    """A wall-clock moment for people and programs: 2026-11-16T00:10:52Z."""
    return datetime.fromtimestamp(moment_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_us(text: str) -> int:
    """A moment in ISO 8601 as microseconds since the epoch; without a zone it is UTC. ValueError if it is none."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def monotonic() -> float:
    """Seconds of a clock that never jumps: timers, back-off, keep alive."""
    return time.monotonic()
