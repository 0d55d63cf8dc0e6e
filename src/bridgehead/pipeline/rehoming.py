"""A route that has got a query of its own takes along what waited for it in another log.

Done by the node before any engine starts: whatever waits in such a log moves on, in one write for some rows at a time. Rows of
a route that lives elsewhere now are appended to its log; those of all others become outbox rows by their rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.gate import Gate, Output
from bridgehead.pipeline.inline import MAX_BYTES, MAX_ROWS
from bridgehead.pipeline.rules import RouteRules, applied, split_routes
from bridgehead.storage.journal import Log


def rehome(gate: Gate, log: Log, homes: Mapping[str, Log], rules: Mapping[str, RouteRules]) -> int:
    """``homes``: the logs of routes with a query of their own. Returns how many rows have moved to another log."""
    strays = {route for route, rows in log.waiting_of.items() if rows and homes.get(route, log) is not log}
    moved = 0
    while strays and log.consumed < log.visible:
        end = log.plan(log.consumed, MAX_ROWS, MAX_BYTES)
        going: list[tuple[Log, str, Batch]] = []
        staying: list[Output] = []
        for first, stored in log.read(log.consumed, end):
            for route, own, _ in split_routes(stored):
                if route in strays:
                    going.append((homes[route], route, own))
                    moved += own.num_rows
            staying += [Output(*made) for made in applied(stored, log.name, first, rules) if made[0] not in strays]
        gate.rehome(log, end, going, staying)
    return moved
