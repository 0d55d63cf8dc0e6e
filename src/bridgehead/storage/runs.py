"""Whose the rows of a log are: which offsets belong to which route, as change points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator


class Runs:
    """From each start to the next one all rows are of one route. A turn of the node adds one run a route, if that."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._routes: list[str] = []

    def extend(self, start: int, route: str) -> None:
        """Rows from ``start`` on are of this route."""
        if not self._routes or self._routes[-1] != route:
            self._starts.append(start)
            self._routes.append(route)

    def between(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """(route, first, last) for every run in [start, end), in order."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self._starts) and self._starts[index] < end:
            last = self._starts[index + 1] if index + 1 < len(self._starts) else end
            yield self._routes[index], max(self._starts[index], start), min(last, end)
            index += 1

    def forget(self, below: int) -> None:
        """Nobody asks below this any more."""
        done = bisect_right(self._starts, below) - 1
        if done > 0:
            del self._starts[:done]
            del self._routes[:done]
