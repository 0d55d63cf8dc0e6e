"""Whatever rules come, go and are purged, in any order: a route that is there keeps every message of its queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.node.routes import Routes
from bridgehead.settings.load import from_document
from bridgehead.settings.model import Settings
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from making.rows import numbered, outbox_rows

FILTERS = ["a", "b", "a/b", "a/#", "a,b", "a b", "+", "+/b", "#", "a'", 'a","b', "$share/g/a"]
"""Some look alike when they are put together carelessly."""
RULE = st.fixed_dictionaries(
    {"filters": st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True)},
    optional={"destination": st.sampled_from(["a", "b/{#}"]), "maxQoS": st.integers(0, 2), "queueLimit": st.integers(5, 9)},
)
RULES = st.lists(RULE, min_size=1, max_size=4, unique_by=lambda rule: (frozenset(rule["filters"]), rule.get("destination")))
BRIDGES = st.dictionaries(st.sampled_from(["b", "b-b", "b_b"]), RULES, max_size=3)
ROWS = 3


def settings_of(bridges: dict[str, list[dict[str, Any]]]) -> Settings:
    listed = [{"id": name, "host": "h", "localSubscriptions": rules} for name, rules in bridges.items()]
    return from_document({"node": "edge", "pipeline": {"engine": "inline"}, "bridges": listed})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(BRIDGES, st.booleans()), min_size=1, max_size=5))
def test_no_change_and_no_purge_touches_the_queue_of_a_route_that_is_there(
    lives: list[tuple[dict[str, list[dict[str, Any]]], bool]],
) -> None:
    engine = MemoryEngine()
    routes = Routes(settings_of({}), engine, Journal(engine, 1 << 30), lambda: None)
    held: dict[str, int] = {}
    for bridges, purge in lives:
        now = settings_of(bridges)
        routes.change(routes.plan(now, ()))
        if purge:
            routes.purge(list(routes.removed))
        there = {route.id for route in now.routes()}
        held = {route: rows for route, rows in held.items() if route in there or not purge}
        assert {route: routes.outboxes[route].depth for route in held} == held
        for route in there - held.keys():
            assert routes.outboxes[route].depth == 0
            changes = Changes()
            routes.outboxes[route].land(changes, outbox_rows(*numbered(0, ROWS, qos=1)))
            engine.write(changes)
            routes.outboxes[route].landed()
            held[route] = ROWS
