"""Rows that wait in a log which is not that of their route any more go along with it.

Done by the node while nobody else reads that log: whatever waits there moves on, in one write for some rows at a time. Rows of
a route that has a query of its own now are appended to its log; rows of a route that is purged go; all others become outbox
rows by their rules.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.inline import MAX_BYTES, MAX_ROWS
from bridgehead.pipeline.landing import Landing, Output
from bridgehead.pipeline.rules import RouteRules, applied, split_routes
from bridgehead.storage.journal import Log


def strays_in(log: Log, homes: Mapping[str, Log], purged: Container[str] = ()) -> set[str]:
    """The routes with rows in this log that belong elsewhere. Those that ``homes`` does not know are where they belong."""
    waiting = (route for route, rows in log.waiting_of.items() if rows)
    return {route for route in waiting if route in purged or homes.get(route, log) is not log}


def rehome(
    landing: Landing,
    log: Log,
    homes: Mapping[str, Log],
    rules: Mapping[str, RouteRules],
    purged: Container[str] = (),
) -> Iterator[int]:
    """``homes``: the logs of routes; one that has its log alone has given it its name. Yields after each write how many rows
    it has moved to another log; what is left at that moment may be left for another time."""
    strays = strays_in(log, homes, purged)
    while strays and log.consumed < log.visible:
        moved = 0
        end = log.plan(log.consumed, MAX_ROWS, MAX_BYTES)
        going: list[tuple[Log, str, Batch]] = []
        staying: list[Output] = []
        leaving = {route for route in strays if route in purged or homes[route].name == route}
        for first, stored in log.read(log.consumed, end):
            for route, rows, _ in split_routes(stored):
                if route in leaving and route not in purged:
                    going.append((homes[route], route, rows))
                    moved += rows.num_rows
            staying += [Output(*made) for made in applied(stored, log.name, first, rules) if made[0] not in leaving]
        landing.rehome(log, end, going, staying)
        yield moved
