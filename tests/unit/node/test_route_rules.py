"""What the settings of a bridge make of the rules of its routes."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.node.routes import Routes
from bridgehead.settings.load import from_document
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine

BOTH: dict[str, Any] = {"localSubscriptions": [{"filters": ["a/+"]}], "remoteSubscriptions": [{"filters": ["b/+"]}]}


def routes_of(**bridge: Any) -> Routes:
    engine = MemoryEngine()
    settings = from_document({"node": "edge", "bridges": [{"id": "b", "host": "h", **BOTH, **bridge}]})
    return Routes(settings, engine, Journal(engine, 1 << 30), lambda: None)


@pytest.mark.parametrize(
    ("bridge", "push_limit", "pull_limit", "unsaid"),
    [
        ({}, 1, 1, 0),
        ({"loopPreventionHopCount": 3}, 3, 3, 0),
        ({"loopPreventionHopCount": 3, "mqttVersion": "3.1.1"}, 1, 3, 2),
        ({"mqttVersion": "3.1.1"}, 1, 1, 0),
        ({"loopPreventionHopCount": 3, "mqttVersion": "3.1.1", "loopPreventionEnabled": False}, None, None, 2),
    ],
)
def test_where_the_hop_count_is_lost_a_message_has_used_up_its_hops(
    bridge: dict[str, Any], push_limit: int | None, pull_limit: int | None, unsaid: int
) -> None:
    routes = routes_of(**bridge)
    push, pull = routes.configured
    assert (routes.doors[push].rule.hop_limit, routes.doors[pull].rule.hop_limit) == (push_limit, pull_limit)
    assert (routes.rules[push].hops_unsaid, routes.rules[pull].hops_unsaid) == (0, unsaid)


def test_filters_travel_with_the_rules_only_where_the_destination_asks_for_them() -> None:
    pull = [{"filters": ["b/+"], "destination": "x/{+1}"}]
    push = [{"filters": ["a/+"], "destination": "x/{2}", "rewrite": [{"pattern": "x", "replacement": "y"}]}]
    rules = list(routes_of(localSubscriptions=push, remoteSubscriptions=pull).rules.values())
    assert [(rule.destination, rule.filters, rule.rewrite) for rule in rules] == [
        ("x/{2}", (), (("x", "y"),)),
        ("x/{+1}", ("b/+",), ()),
    ]
