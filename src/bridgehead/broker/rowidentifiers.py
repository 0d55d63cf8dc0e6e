"""By which subscriptions the rows of a queue came: their identifiers, as change points.

Nothing is kept for each row, and nothing is written: after a restart the subscriptions that match say it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

Identifiers = tuple[int, ...]
FEW: Final = 64


class RowIdentifiers:
    """Rows from ``_starts[i]`` up to the next start came by subscriptions with the identifiers ``_values[i]``."""

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._values: list[Identifiers] = [()]

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, identifiers: Identifiers) -> None:
        """Rows from here on came by these."""
        if identifiers != self._values[-1]:
            self._starts.append(start)
            self._values.append(identifiers)

    def at(self, seq: int) -> Identifiers:
        return self._values[bisect_right(self._starts, seq) - 1]

    def change_after(self, seq: int) -> int | None:
        """The first row behind this one that came by others; None if there is none."""
        following = bisect_right(self._starts, seq)
        return self._starts[following] if following < len(self._starts) else None

    def forget(self, before: int) -> None:
        """Nobody will ask for rows below this number; a few at a time are not worth the move."""
        gone = bisect_right(self._starts, before) - 1
        if gone > FEW and 2 * gone > len(self._starts):
            del self._starts[:gone], self._values[:gone]
