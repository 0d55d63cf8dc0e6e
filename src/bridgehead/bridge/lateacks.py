"""Acknowledgements that nobody waits for are worked on while a sync runs: then the loop has nothing better to do.

They come while the next messages are on their way to us. Worked on at once, they would keep these from being written and
synced, for which their senders wait. What was not worked on when the process ends is as what it has not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.storage.engine import Engine

Acks = npt.NDArray[np.int64]
"""As ``ScanResult.acks`` has them: packet type, packet id, reason."""

_PUBACK: Final = 4


def can_wait(acks: Acks) -> bool:
    """At QoS 2 the remote gets an answer to each of them: those are never late."""
    return bool((acks[:, 0] == _PUBACK).all())


class LateAcks:
    def __init__(self, engine: Engine, work_on: Callable[[Acks, float], None]) -> None:
        """``work_on`` gets acknowledgements in the order in which they came, and when the last of them did."""
        self._engine = engine
        self._work_on = work_on
        self._came: list[Acks] = []
        self._last = 0.0

    def put(self, acks: Acks, now: float) -> None:
        self._came.append(acks)
        self._last = now
        if len(self._came) == 1:
            self._engine.while_syncing(self.work_off)

    def work_off(self) -> None:
        """Whatever has come is worked on now."""
        came, self._came = self._came, []
        if came:
            self._work_on(came[0] if len(came) == 1 else np.concatenate(came), self._last)
