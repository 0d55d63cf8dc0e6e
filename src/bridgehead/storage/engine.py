"""The storage interface that journal and outbox stand on: numbered batches on named shelves, changed by atomic writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from bridgehead.columns.batches import Batch

if TYPE_CHECKING:
    from bridgehead.storage.losses import Losses
    from bridgehead.storage.syncing import SyncTimes

Shelf = tuple[str, ...]
"""A structured name, such as ("journal", "shared") or ("outbox", route id): never joined to one string and parsed back."""

CEILING: Final = "ceiling"
"""The state under (CEILING, *shelf) is a number that none on this shelf has reached yet, in any life."""

HALF_WAY: Final = ("ids", "inbound")
"""States whose names begin so are packet ids of QoS 2, half-way between us and a peer. Where some of what was agreed is gone
they are void: a stale id makes a peer, or us, take a new message for an old one."""


@dataclass(slots=True)
class Changes:
    """What one atomic write does: all of it happens, or nothing."""

    puts: list[tuple[Shelf, int, Batch]] = field(default_factory=list)
    drops: list[tuple[Shelf, int]] = field(default_factory=list)
    state: dict[Shelf, Any] = field(default_factory=dict)
    """Small states by name: bytes, or whatever JSON can say; None takes one away."""
    later: dict[Shelf, Any] = field(default_factory=dict)
    """State that is only of use beside rows on the disk: a write that brings none may leave it to the next one that does."""
    notes: list[tuple[Shelf, int, int | None]] = field(default_factory=list)
    """Small numbers by (shelf, number); None takes one away."""
    when_safe: list[Callable[[], None]] = field(default_factory=list)
    """Whom to call when this write keeps its promise."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a batch without reading it. ``present`` says which of its rows are still there; None = all."""

    rows: int
    weight: int
    present: npt.NDArray[np.bool_] | None = None


class Engine(Protocol):
    """Batches by (shelf, number) and small states by shelf. Used from the node's event loop only."""

    incarnation: str
    """Names the life of the offsets: another one means that offsets of the old one mean nothing any more."""

    losses: Losses
    """What damage has cost, in all lives."""

    @property
    def sync_times(self) -> SyncTimes | None:
        """What its syncs have taken; None if it has none."""

    durable: bool
    """Whether anything here outlives the process: only then is it worth keeping what a restart needs."""

    def write(self, changes: Changes) -> None:
        """Apply atomically; reads see it at once, its promise is kept when ``when_synced`` calls back."""

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when everything written so far survives what this engine promises to survive."""

    def between_syncs(self, callback: Callable[[], None]) -> None:
        """Call back when no sync runs: now, or when the running one has ended, before another one begins."""

    def while_syncing(self, callback: Callable[[], None]) -> None:
        """Call back when the loop has time: while a sync runs, or in a moment if none does. For what nobody waits for."""

    def hurry_sync(self) -> None:
        """Do not wait for the end of this turn of the loop: what others still write in it is for the next sync."""

    def read(self, shelf: Shelf, number: int) -> Batch:
        """The batch with all its rows in their places; a row that did not survive a restart has only nulls."""

    def numbers(self, shelf: Shelf) -> Iterator[int]:
        """The numbers on a shelf in rising order."""

    def shapes(self, shelf: Shelf) -> Iterator[tuple[int, Shape]]:
        """The same with what is there: how journal and outbox find themselves again after a restart."""

    def state(self, shelf: Shelf) -> Any:
        """The small state kept under this name, or None."""

    def states(self, prefix: Shelf) -> Iterator[tuple[Shelf, Any]]:
        """All states whose names begin with these parts, in the order of their names."""

    def notes(self, shelf: Shelf) -> Iterator[tuple[int, int]]:
        """The notes of a shelf in rising order of their numbers."""

    @property
    def spoken_for(self) -> int:
        """Bytes of the disk that it may still take for what it has, without a single message more."""

    def give_back(self) -> None:
        """Space is short: give back soon what deleted batches still take."""

    def close(self) -> None: ...


async def synced(engine: Engine) -> None:
    """Return when everything written so far keeps its promise; never, if the disk has failed: then the whole process ends."""
    safe = asyncio.Event()
    engine.when_synced(safe.set)
    await safe.wait()


def keep_state(kept: dict[Shelf, Any], changes: Changes) -> None:
    """Bring the states in RAM up to date with a write."""
    kept.update(changes.later)
    for shelf, state in changes.state.items():
        if state is None:
            kept.pop(shelf, None)
        else:
            kept[shelf] = state


def states_under(kept: dict[Shelf, Any], prefix: Shelf) -> Iterator[tuple[Shelf, Any]]:
    return iter(sorted(((shelf, state) for shelf, state in kept.items() if shelf[: len(prefix)] == prefix), key=lambda s: s[0]))
