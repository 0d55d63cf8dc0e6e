"""What the histogram of acknowledgements costs a message: ``python -m benchmarks.acklatency``."""

from __future__ import annotations

import time

import numpy as np

from bridgehead.bridge.acklatency import AckLatency
from bridgehead.bridge.outgoing import LAST_ID

MESSAGES = 1 << 20


def seconds(batch: int) -> float:
    """For a million messages that are sent and acknowledged so many at a time."""
    latency = AckLatency(LAST_ID)
    ids = np.arange(1, batch + 1).astype(np.uint16)
    began = time.perf_counter()
    for turn in range(MESSAGES // batch):
        latency.sent(ids, turn)
        latency.acknowledged(ids, turn + 0.01)
    assert latency.histogram().below[-1][1] == MESSAGES
    return time.perf_counter() - began


def main() -> None:
    for batch in (1, 16, 256, 4096):
        each = min(seconds(batch) for _ in range(3)) / MESSAGES
        print(f"{batch:5d} at a time: {each * 1e9:6.0f} ns a message, {each * batch * 1e6:6.1f} µs a batch")


if __name__ == "__main__":
    main()
