"""Routes that an earlier life knew: their rules stay with their rows.

A route that is taken out of the file leaves rows behind, in the journal and in its outbox. They are not dropped: what waits in
the journal still becomes outbox rows, by the rules it was accepted under, and the outbox stays as it is, unsent. When the same
route is in the file again, it finds all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Final

from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal
from bridgehead.storage.ledger import LEDGER, ROUTE

_FIELDS: Final = {field.name for field in fields(RouteRules)}


_BRIDGE: Final = "bridge"


def remember(engine: Engine, rules: Iterable[RouteRules], bridges: Mapping[str, str]) -> None:
    """Before the first row of a route is written, so that no row is ever found without its rules.

    ``bridges``: whose each route is. An id is never taken apart to find that out.
    """
    if not engine.durable:
        return
    changes = Changes()
    for rule in rules:
        bridge = bridges[rule.route]
        found = engine.state((ROUTE, rule.route))
        if found is None or found.get(_BRIDGE) != bridge or recalled(engine, rule.route) != rule:
            changes.state[ROUTE, rule.route] = {**asdict(rule), _BRIDGE: bridge}
    if changes.state:
        engine.write(changes)


def removed_routes(engine: Engine, journal: Journal, present: Iterable[str]) -> dict[str, RouteRules]:
    """Routes of earlier lives that are not in the file any more, with the rules they had."""
    known = {name[1] for name, _ in engine.states((ROUTE,))} | {name[1] for name, _ in engine.states((LEDGER,))}
    for log in journal.logs.values():
        known |= log.waiting_of.keys()
    return {route: recalled(engine, route) or RouteRules(route=route) for route in sorted(known - set(present))}


def bridges_of_routes(engine: Engine) -> dict[str, str]:
    """Whose each route of earlier lives was."""
    return {name[1]: state[_BRIDGE] for name, state in engine.states((ROUTE,)) if state.get(_BRIDGE) is not None}


def recalled(engine: Engine, route: str) -> RouteRules | None:
    state = engine.state((ROUTE, route))
    if state is None:
        return None
    return RouteRules.from_json({name: value for name, value in state.items() if name in _FIELDS})
