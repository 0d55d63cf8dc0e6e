"""A small simulated factory: machines that report, and a control room that sends them commands."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np

from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch

MACHINES = ("press-1", "press-2", "lathe-1", "lathe-2", "oven-1", "robot-7")
SIGNALS = ("temperature", "vibration", "power")


def readings() -> Iterator[tuple[str, bytes]]:
    """Endless measurements of all machines, each with the time it was taken."""
    count = 0
    while True:
        for machine in MACHINES:
            for signal in SIGNALS:
                count += 1
                value = round(50 + 20 * math.sin(count / 97) + len(machine), 3)
                body = {"n": count, "t": now_us(), "value": value}
                yield f"factory/hall-a/{machine}/{signal}", json.dumps(body).encode()


def commands() -> Iterator[tuple[str, bytes]]:
    """Endless set points from the cloud."""
    count = 0
    while True:
        for machine in MACHINES:
            count += 1
            yield f"commands/{machine}/setpoint", json.dumps({"n": count, "t": now_us(), "speed": count % 100}).encode()


class Arrivals:
    """What has come out at the far end: how many, how late, and whether any number is missing or came twice."""

    KEEP = 20_000

    def __init__(self) -> None:
        self.count = 0  # different numbers
        self.doubled = 0
        self._in_a_row = 0  # every number up to this one has come
        self._ahead: set[int] = set()  # those beyond it that have
        self._late: list[float] = []

    def batch(self, batch: Batch) -> None:
        now = now_us()
        for payload in batch.column("payload").to_pylist():
            body = json.loads(payload)
            self._late.append((now - body["t"]) / 1000)
            self._came(body["n"])
        del self._late[: -self.KEEP]

    def _came(self, number: int) -> None:
        if number <= self._in_a_row or number in self._ahead:
            self.doubled += 1
            return
        self.count += 1
        self._ahead.add(number)
        while self._in_a_row + 1 in self._ahead:
            self._in_a_row += 1
            self._ahead.remove(self._in_a_row)

    @property
    def missing(self) -> int:
        """Numbers below the highest that came which did not come."""
        return max(self._ahead, default=self._in_a_row) - self._in_a_row - len(self._ahead)

    def latency(self) -> tuple[float, float] | None:
        """Median and 99th percentile in milliseconds."""
        if not self._late:
            return None
        p50, p99 = np.percentile(self._late, (50, 99))
        return float(p50), float(p99)
