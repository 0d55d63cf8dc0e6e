"""What the tasks of a running batch have staged, until their driver's commit names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from bridgehead.columns.batches import Batch, checksum, concat
from bridgehead.errors import RefusedError
from bridgehead.pipeline.landing import Output
from bridgehead.storage.journal import Log

JOINED_BYTES: Final = 1 << 16
"""Parts whose batches are no larger than this, on average, are joined by route at a commit: a copy costs less than it saves."""


@dataclass(frozen=True, slots=True)
class Part:
    """Staged rows of some routes: named by the task that made them, joined by ``order`` (offset of their first row)."""

    name: str
    order: int
    rows: int
    checksum: int
    reason: str | None = None  # why these rows are no messages: they become dead letters


@dataclass(frozen=True, slots=True)
class Staged:
    """A part as it arrived. Measured by whoever received it, off the loop: checksums of large parts take a while."""

    batches: list[Batch]
    routes: list[str]  # of each batch, if they go to routes
    rows: int
    size: int
    checksum: int

    @staticmethod
    def of(batches: list[Batch], routes: list[str] | None = None) -> Staged:
        routes = [] if routes is None else routes
        rows, size = sum(b.num_rows for b in batches), sum(b.get_total_buffer_size() for b in batches)
        return Staged(batches, routes, rows, size, checksum(batches, routes))

    def by_route(self) -> Iterator[tuple[str, Batch]]:
        return zip(self.routes, self.batches, strict=True)


@dataclass(slots=True)
class Staging:
    """Of one query."""

    planned: tuple[int, int] | None = None  # the range of the running batch
    staged: dict[str, Staged] = field(default_factory=dict)
    finished: dict[int, tuple[int, list[Part]]] = field(default_factory=dict)  # by its start: a task's range and parts

    def announced(self, parts: Iterable[Part]) -> list[tuple[Part, Staged]]:
        """These parts as they were staged, in order; refused if one is not what was announced."""
        found = []
        for part in sorted(parts, key=lambda p: p.order):
            staged = self.staged.get(part.name)
            if staged is None:
                raise RefusedError(f"part {part.name} was announced and never staged")
            if (staged.rows, staged.checksum) != (part.rows, part.checksum):
                raise RefusedError(f"part {part.name} is not what was announced")
            found.append((part, staged))
        return found

    def finished_between(self, name: str, start: int, end: int) -> list[Part]:
        """The parts of the tasks that have finished; refused if their ranges do not cover [start, end) without a gap."""
        parts: list[Part] = []
        position = start
        while position < end:
            if position not in self.finished:
                raise RefusedError(f"no task of {name} has finished the range from {position}")
            position, own = self.finished[position]
            parts += own
        if position > end:
            raise RefusedError(f"a task of {name} finished beyond {end}")
        return parts

    def forget(self, planned: tuple[int, int] | None) -> None:
        """What was staged is of no use any more."""
        self.planned, self.staged, self.finished = planned, {}, {}

    @property
    def staged_bytes(self) -> int:
        return sum(part.size for part in self.staged.values())


def joined(parts: list[tuple[Part, Staged]]) -> list[Output]:
    """What was staged, in order; small batches of a route in several parts become one, for each takes its own way out."""
    if any(staged.size > JOINED_BYTES * len(staged.batches) for _, staged in parts):
        return [Output(*rows, part.reason) for part, staged in parts for rows in staged.by_route()]
    runs: dict[tuple[str, str | None], list[Batch]] = {}
    for part, staged in parts:
        for route, rows in staged.by_route():
            runs.setdefault((route, part.reason), []).append(rows)
    return [Output(route, concat(run), reason) for (route, reason), run in runs.items()]


def must_be_all(log: Log, start: int, end: int, parts: list[tuple[Part, Staged]]) -> None:
    """Without a transform as many rows of each route come out of a batch as went in."""
    brought: dict[str, int] = {}
    for _, staged in parts:
        for route, rows in staged.by_route():
            brought[route] = brought.get(route, 0) + rows.num_rows
    if brought != (expected := log.rows_by_route(start, end)):
        raise RefusedError(f"the tasks of {log.name} brought {brought} of [{start}, {end}), which holds {expected}")
