"""QoS 2 packet ids that a peer has sent and not yet released: written with the rows they brought, in one atomic write.

So a message that comes again after a crash (same id, DUP) is known if and only if its row was kept. The ids are bitmap pages,
small states of the engine; a turn writes the pages in which a mark has changed, a page without a mark is taken away.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.storage.engine import Changes, Engine, Shelf

IDS: Final = 1 << 16
PAGE: Final = 1024
"""Ids of a page: 128 bytes on the disk, and few of them for a peer that counts its ids up."""


class InboundIds:
    """The marks of one session. ``marks`` is what the scan reads and changes; whoever scans says what it has ``changed``."""

    def __init__(self, engine: Engine, name: Shelf, *, kept: bool = True) -> None:
        self._marks: npt.NDArray[np.uint8] | None = None
        self._engine = engine
        self._name = name
        self._kept = kept and engine.durable
        self._changed: set[int] = set()  # pages that may differ from what is written

    @property
    def marks(self) -> npt.NDArray[np.uint8]:
        """By packet id. Made when first asked for: of many sessions found at a start, few are asked soon."""
        if self._marks is None:
            self._marks = np.zeros(IDS, np.uint8)
            for page in range(IDS // PAGE if self._kept else 0):
                bits = self._engine.state(self._shelf(page))
                if bits is not None:
                    self._of(page)[:] = np.unpackbits(np.frombuffer(bits, np.uint8))
        return self._marks

    def changed(self, ids_from: int, ids_to: int) -> bool:
        """Marks in [ids_from, ids_to) have been set or cleared; True if a write is due, for these or for earlier ones."""
        if self._kept and ids_to > ids_from:
            self._changed.update(range(ids_from // PAGE, (ids_to - 1) // PAGE + 1))
        return bool(self._changed)

    def write(self, changes: Changes) -> None:
        """Let this write bring the disk up to date."""
        for page in self._changed:
            marks = self._of(page)
            bits = np.packbits(marks).tobytes() if marks.any() else None
            if bits != self._engine.state(self._shelf(page)):
                changes.state[self._shelf(page)] = bits
        self._changed.clear()

    def forget(self, changes: Changes) -> None:
        """The session is over: its ids mean nothing any more."""
        if self._marks is not None:
            self._marks.fill(0)
        if self._kept:
            every = [self._shelf(page) for page in range(IDS // PAGE)]
            changes.state.update({shelf: None for shelf in every if self._engine.state(shelf) is not None})
        self._changed.clear()

    def _of(self, page: int) -> npt.NDArray[np.uint8]:
        return self.marks[page * PAGE : (page + 1) * PAGE]

    def _shelf(self, page: int) -> Shelf:
        return (*self._name, str(page))
