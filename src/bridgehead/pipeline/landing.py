"""Rows leave a log of the journal and are outbox rows: one write, in which every number of their routes moves along."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial

from bridgehead import clock
from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.pipeline.rules import split_routes
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Log
from bridgehead.storage.outbox import Outbox


@dataclass(frozen=True, slots=True)
class Output:
    """Rows on their way into the outbox of a route, or to its dead letters."""

    route: str
    batch: Batch
    reason: str | None = None


@dataclass(slots=True)
class QueryStats:
    """What the node knows of one query, for status and the demo's table."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    last_rows: int = 0
    state_lost: tuple[int, int] | None = None  # offsets whose rows the query has forgotten, for they are not retained


class Landing:
    """Used from the node's event loop: by the commits of a driver, by the inline engine, by whoever moves rows."""

    def __init__(self, engine: Engine, outboxes: Mapping[str, Outbox], transformed: Container[str] = ()) -> None:
        """``transformed``: the logs between which and the outboxes a transform stands: rows in and out are not the same."""
        self._engine = engine
        self._outboxes = outboxes
        self._transformed = transformed
        self._stats: dict[str, QueryStats] = {}
        self.on_commit: Callable[[str], None] = lambda log: None  # rows of this log are in the outboxes

    def stats(self, log: str) -> QueryStats:
        return self._stats.setdefault(log, QueryStats())

    def land(self, log: Log, end: int, outputs: list[Output], changes: Changes | None = None) -> None:
        """Outbox rows and the consumed offset in one write."""
        for output in outputs:
            if output.route not in self._outboxes:
                raise RefusedError(f"no route {output.route}")  # before any outbox was touched
        changes = Changes() if changes is None else changes
        safe = self._safe_in(log, end) if log.name in self._transformed else _safe_out(self._outboxes, outputs)
        self._land(changes, log.name, log.consume(changes, end), safe, outputs)
        self._engine.write(changes)
        self._engine.hurry_sync()  # no row leaves its outbox before it is over
        for outbox in {output.route: self._outboxes[output.route] for output in outputs if output.reason}.values():
            outbox.dead.taken()
        self.on_commit(log.name)

    def rehome(self, log: Log, end: int, going: list[tuple[Log, str, Batch]], staying: list[Output]) -> None:
        """Some rows of a log move to others, the rest become outbox rows: one write. Who has moved still waits."""
        changes = Changes()
        taken = log.consume(changes, end)
        for home, route, rows in going:
            home.append(changes, rows)
            taken[route] -= rows.num_rows
            changes.when_safe.append(partial(home.publish, home.end))
        consumed = {route: rows for route, rows in taken.items() if rows}
        self._land(changes, log.name, consumed, _safe_out(self._outboxes, staying), staying)
        log.trim(changes, end)
        self._engine.write(changes)

    def pass_through(self, changes: Changes, log: Log, stored: Batch, outputs: list[Output]) -> None:
        """Rows of a log in which nothing waits land in the write that takes them in: one write and one sync, not two.

        ``outputs`` is what the rules made of the ``stored`` ones.
        """
        log.pass_through(changes, stored)
        consumed = {output.route: output.batch.num_rows for output in outputs}
        self._land(changes, log.name, consumed, _safe_out(self._outboxes, outputs), outputs)

    def _land(self, changes: Changes, log: str, consumed: dict[str, int], safe: dict[str, int], outputs: list[Output]) -> None:
        """``consumed`` and ``safe``: how many rows of each route leave the journal, and how many of these are on the disk."""
        stats = self.stats(log)
        made = log in self._transformed
        for route, rows in consumed.items():
            ledger = self._outboxes[route].ledger
            ledger.consume(rows, safe.get(route, 0))
            if made:
                ledger.transform_in(rows, safe.get(route, 0))
                ledger.write(changes)
        for output in outputs:
            outbox, rows = self._outboxes[output.route], output.batch
            if made:
                outbox.ledger.transform_out(rows.num_rows, outbox.ledger.safe_rows(rows))
            if output.reason is None:
                outbox.land(changes, rows)
            else:
                outbox.land_dead(changes, rows, output.reason, clock.now_us())
            stats.rows_out += rows.num_rows
        stats.batches += 1
        stats.last_rows = sum(consumed.values())  # not the length of the range: it may have holes
        stats.rows_in += stats.last_rows
        landed = [self._outboxes[route] for route in dict.fromkeys(output.route for output in outputs)]
        changes.when_safe += [partial(outbox.landed, outbox.end) for outbox in landed]

    def _safe_in(self, log: Log, end: int) -> dict[str, int]:
        """How many of the rows that a transform takes in are on the disk: what comes out of it says nothing about that."""
        safe: dict[str, int] = {}
        for _, rows in log.read(log.consumed, end) if end > log.consumed else ():
            for route, own, _ in split_routes(rows):
                safe[route] = safe.get(route, 0) + self._outboxes[route].ledger.safe_rows(own)
        return safe


def _safe_out(outboxes: Mapping[str, Outbox], outputs: list[Output]) -> dict[str, int]:
    """How many rows of each route are on the disk; without a transform what comes out says it of what went in."""
    safe: dict[str, int] = {}
    for output in outputs:
        safe[output.route] = safe.get(output.route, 0) + outboxes[output.route].ledger.safe_rows(output.batch)
    return safe
