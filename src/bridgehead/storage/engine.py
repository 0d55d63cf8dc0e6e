"""The storage interface that journal and outbox stand on: numbered batches on named shelves, changed by atomic writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridgehead.columns.batches import Batch

Shelf = tuple[str, ...]
"""A structured name, such as ("journal", "shared") or ("outbox", route id): never joined to one string and parsed back."""


@dataclass(slots=True)
class Changes:
    """What one atomic write does: all of it happens, or nothing."""

    puts: list[tuple[Shelf, int, Batch]] = field(default_factory=list)
    drops: list[tuple[Shelf, int]] = field(default_factory=list)
    state: dict[Shelf, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Batches by (shelf, number) and small states by shelf. Used from the node's event loop only."""

    incarnation: str
    """Names the life of the offsets: another one means that offsets of the old one mean nothing any more."""

    def write(self, changes: Changes) -> None:
        """Apply atomically; reads see it at once, its promise is kept when ``when_synced`` calls back."""

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when everything written so far survives what this engine promises to survive."""

    def read(self, shelf: Shelf, number: int) -> Batch: ...

    def numbers(self, shelf: Shelf) -> Iterator[int]:
        """The numbers on a shelf in rising order: how journal and outbox find themselves again after a restart."""

    def state(self, shelf: Shelf) -> Any:
        """The small state kept under this name, or None."""

    def close(self) -> None: ...
