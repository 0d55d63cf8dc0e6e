"""The id of a message: a user property whose value is the same however often it is sent, and never that of another."""

from __future__ import annotations

import json
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.batches import Batch, message_rows
from bridgehead.pipeline.hops import HOP_COUNT
from bridgehead.pipeline.rules import RouteRules, applied
from bridgehead.pipeline.service import _routed_rows
from making.rows import stored_rows

IDENTIFIED = RouteRules("a", user_properties=(("site", "plant"),), message_id=("bh-id", "edge:1f2e"))
RULES = {"a": IDENTIFIED, "b": RouteRules("b")}


def ids(batch: Batch) -> list[str]:
    return [row[-1]["value"] for row in batch.column("user_properties").to_pylist()]


def test_the_id_comes_behind_all_other_properties() -> None:
    row = {"route": "a", "user_properties": [{"key": "own", "value": "1"}]}
    [(_, found, _)] = applied(stored_rows(row), "shared", 41, RULES)
    pairs = [(pair["key"], pair["value"]) for pair in found.column("user_properties")[0].as_py()]
    assert pairs == [("own", "1"), ("site", "plant"), (HOP_COUNT, "1"), ("bh-id", "edge:1f2e:shared:41")]


def test_a_route_without_one_gets_none() -> None:
    [(_, found, _)] = applied(stored_rows({"route": "b"}), "shared", 0, RULES)
    assert [pair["key"] for pair in found.column("user_properties")[0].as_py()] == [HOP_COUNT]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=30), st.integers(0, 2**40), st.data()
)
def test_it_is_the_same_in_the_node_in_sparks_scan_and_in_the_message_table(
    rows: list[tuple[str, int]], first: int, data: st.DataObject
) -> None:
    stored = stored_rows(
        *({"route": route, "user_properties": [{"key": "k", "value": str(n)} for n in range(count)]} for route, count in rows)
    )
    skipped = data.draw(st.integers(0, len(rows) - 1))
    stored, first, rows = stored.slice(skipped), first + skipped, rows[skipped:]
    forms = [stored, _routed_rows(first, stored)[0], message_rows(stored, first, 0, "edge", {})]
    expected = [f"edge:1f2e:shared:{first + i}" for i, (route, _) in enumerate(rows) if route == "a"]
    for form in forms:
        found = {route: batch for route, batch, _ in applied(form, "shared", first, RULES)}
        assert (ids(found["a"]) if "a" in found else []) == expected


def test_it_travels_to_spark() -> None:
    assert RouteRules.from_json(json.loads(json.dumps(asdict(IDENTIFIED)))) == IDENTIFIED
    assert RouteRules.from_json(json.loads(json.dumps(asdict(RULES["b"])))) == RULES["b"]
