"""How much of what was consumed stays in the journal, so that somebody can read it again.

Two bounds, for all logs of a node together: an age in hours and a number of bytes; 0 stands for a bound that is not set. With
both, rows stay while they are younger than the one and within the other. With neither, nothing stays. Whole batches leave, each
with its last row, the oldest of all logs first. What waits, and what its own reader may still ask for, is not touched.

Rows of QoS 0 are in RAM, whatever the mode. Where there is a disk they have a bound of their own: the disk was promised to
hold the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bridgehead.clock import now_us
from bridgehead.storage.engine import Changes

if TYPE_CHECKING:
    from bridgehead.storage.journal import Log

MAX_LOOSE_BYTES: Final = 256 << 20
"""Of retained rows that are only in RAM though there is a disk: beyond it the oldest batches go, whatever else is in them."""

_HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """The bounds, and the logs they hold for."""

    hours: float = 0
    max_bytes: int = 0
    _logs: list[Log] = field(default_factory=list, compare=False, repr=False)

    @property
    def on(self) -> bool:
        return self.hours > 0 or self.max_bytes > 0

    @property
    def held(self) -> int:
        """Bytes of batches whose rows are all consumed."""
        return sum(log.retained_weight for log in self._logs)

    def add(self, log: Log) -> None:
        if self.on:
            self._logs.append(log)

    def sweep(self, changes: Changes) -> None:
        """Let go of what is too old, and of what is too much."""
        if self.hours:
            horizon = now_us() - round(self.hours * _HOUR_US)
            for log in self._logs:
                while (first := log.spare) is not None and log.newest(first) < horizon:
                    log.drop_first(changes)
        if self.max_bytes:
            self._shrink(changes, self.held - self.max_bytes, lambda log: log.retained_weight)
        self._shrink(changes, sum(log.retained_loose for log in self._logs) - MAX_LOOSE_BYTES, lambda log: log.retained_loose)

    def give_way(self, changes: Changes) -> None:
        """Room is short where messages wait: the older half goes."""
        self._shrink(changes, self.held - self.held // 2, lambda log: log.retained_weight)

    def _shrink(self, changes: Changes, excess: int, measure: Callable[[Log], int]) -> None:
        """Let the oldest batches go until so much less is held."""
        while excess > 0:
            spare = [(log.newest(first), log) for log in self._logs if (first := log.spare) is not None]
            if not spare:
                return
            _, log = min(spare, key=lambda each: each[0])
            before = measure(log)
            log.drop_first(changes)
            excess -= before - measure(log)


NOTHING: Final = Retention()
"""Rows leave when they are consumed and their reader has let go."""
