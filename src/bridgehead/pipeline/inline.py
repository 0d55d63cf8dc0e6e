"""The inline engine: the same rules, run in the node, for those who need milliseconds or have no room for a JVM."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.landing import Landing, Output
from bridgehead.pipeline.rules import RouteRules, applied
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Log

log = logging.getLogger(__name__)

MAX_ROWS: Final = 50_000
MAX_BYTES: Final = 32 << 20
"""One turn's bite: the event loop has other work to do."""


class InlineEngine:
    """Moves the rows of one log into the outboxes of their routes. Used from the node's event loop."""

    def __init__(self, engine: Engine, landing: Landing, log: Log, rules: Iterable[RouteRules]) -> None:
        self._engine = engine
        self._landing = landing
        self._log = log
        self._rules = {rule.route: rule for rule in rules}

    @property
    def has_work(self) -> bool:
        return self._log.consumed < self._log.visible

    def pass_through(self, changes: Changes, stored: Batch) -> bool:
        """Rows on their way into the log: if nothing waits there, they are outbox rows by the same write.

        False if they must go through the log: something waits there, or not all of them are messages, which is for ``run``.
        """
        if not self._log.empty:
            return False
        try:
            outputs = [Output(*made) for made in applied(stored, self._log.name, self._log.end, self._rules)]
        except Exception:
            routes = ", ".join(stored.column("route").unique().to_pylist())
            log.exception("messages of %s wait: the rules cannot be applied", routes)
            return False
        if any(output.reason is not None for output in outputs):
            return False  # dead letters are made where rows are counted as consumed
        self._landing.pass_through(changes, self._log, stored, outputs)
        return True

    def run(self) -> int:
        """Move what is visible, within one turn's bounds; the number of offsets consumed."""
        start = self._log.consumed
        end = self._log.plan(start, MAX_ROWS, MAX_BYTES)
        if end == start:
            return 0
        outputs: list[Output] = []
        for first, stored in self._log.read(start, end):
            outputs += [Output(*made) for made in applied(stored, self._log.name, first, self._rules)]
        self._landing.land(self._log, end, outputs)
        changes = Changes()
        self._log.trim(changes, end)
        if changes.drops or changes.later:
            self._engine.write(changes)
        return end - start
