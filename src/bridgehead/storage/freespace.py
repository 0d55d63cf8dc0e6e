"""Watches the room on the disk: below a bound nothing more is taken in that would need it, before storage fails.

What is free is not all there for new messages. Storage takes more for what it has: from its log into tables, from table to
table, from a journal into an outbox. That is spoken for, and what is left is the room.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOK_EVERY: Final = 0.5
"""Seconds between two looks, where nothing large comes in."""
LOOK_AFTER: Final = 16 * 2**20
"""A look is due when this much has come in since the last one, whatever the clock says; of a small bound an eighth."""
TAKEN_BY_EACH: Final = 2
"""Bytes of room for each that comes in: it is in the front log, and is to be in a table."""
MARGIN: Final = 16 * 2**20
"""The room that must be there beyond the bound before anything is taken in again, at most; a sixteenth of a small bound is
enough."""


def free_bytes(directory: Path) -> int:
    """What an unprivileged process may still use of the file system that holds the directory."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class FreeSpace:
    """Whether there is room on the disk. ``low`` begins below the bound and ends a little above it."""

    def __init__(self, probe: Callable[[], int], min_free: int, spoken_for: Callable[[], int] = lambda: 0) -> None:
        self.min_free = min_free
        self.free = 0
        self.spoken_for = 0
        self.refused = 0  # messages kept out, whose publisher was told so
        self.low = False
        self.on_room: Callable[[], None] = lambda: None  # there is space again
        self._probe = probe
        self._spoken_for = spoken_for
        self._came = 0  # bytes since the last look
        self.look()

    @property
    def room(self) -> int:
        """What is there for new messages: less than nothing if storage may need more than there is."""
        return self.free - self.spoken_for

    def look(self) -> None:
        """See how much there is."""
        self._came = 0
        self.free = self._probe()
        self.spoken_for = self._spoken_for()
        if not self.low:
            self.low = self.room < self.min_free
        elif self.room >= self.min_free + min(self.min_free // 16, MARGIN):
            self.low = False
            self.on_room()

    def coming(self, size: int) -> bool:
        """So many bytes are about to be taken in: False if there is no room for them."""
        self._came += size
        close = not self.low and self.room - TAKEN_BY_EACH * self._came < self.min_free
        if close or self._came >= min(LOOK_AFTER, self.min_free // 8):
            self.look()
        return not self.low
