"""The rules of a route as users know them: loop prevention, QoS, retain, destination, properties."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pyarrow as pa
import pytest

from bridgehead.columns.schema import MESSAGE
from bridgehead.pipeline.hops import HOP_COUNT, hop_counts
from bridgehead.pipeline.rules import RouteRules, apply
from making.rows import stored_rows

RULES = RouteRules("r")


def out(row: dict[str, Any], **rules: Any) -> dict[str, Any]:
    [found] = apply(stored_rows(row), dataclasses.replace(RULES, **rules)).to_pylist()
    return dict(found)


def pairs(*given: tuple[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in given]


def properties(*given: tuple[str, str], **rules: Any) -> list[tuple[str, str]]:
    found = out({"user_properties": pairs(*given)}, **rules)["user_properties"]
    return [(pair["key"], pair["value"]) for pair in found]


def test_the_property_has_the_name_that_other_bridges_know() -> None:
    assert HOP_COUNT == "hmq-bridge-hop-count"


@pytest.mark.parametrize(
    ("came", "leaves"),
    [
        ("1", "2"),
        ("41", "42"),
        ("0", "1"),
        ("-3", "-2"),
        ("many", "1"),
        ("", "1"),
        ("1.5", "1"),
        ("99999999999999999999", "1"),
    ],
)
def test_the_hop_count_goes_up_by_one_and_what_is_no_number_counts_as_none(came: str, leaves: str) -> None:
    assert properties((HOP_COUNT, came)) == [(HOP_COUNT, leaves)]


def test_a_message_without_a_hop_count_leaves_with_1() -> None:
    assert properties() == [(HOP_COUNT, "1")]
    assert properties(("a", "b")) == [("a", "b"), (HOP_COUNT, "1")]


def test_of_several_hop_counts_the_first_is_read_all_are_removed_and_one_new_one_comes_last() -> None:
    came = (("a", "1"), (HOP_COUNT, "5"), ("b", "2"), (HOP_COUNT, "90"), ("c", "3"))
    assert properties(*came) == [("a", "1"), ("b", "2"), ("c", "3"), (HOP_COUNT, "6")]


def test_a_bridge_with_loop_prevention_off_adds_nothing_and_passes_the_count_on_as_it_came() -> None:
    came = ((HOP_COUNT, "5"), ("a", "1"), (HOP_COUNT, "x"))
    assert properties(*came, count_hops=False) == list(came)
    assert properties(count_hops=False) == []


def test_the_routes_own_properties_stand_between_the_messages_and_the_hop_count() -> None:
    added = (("site", "plant-7"), ("site", "again"))
    assert properties(("a", "1"), user_properties=added) == [("a", "1"), *added, (HOP_COUNT, "1")]
    assert properties(("a", "1"), user_properties=added, count_hops=False) == [("a", "1"), *added]


def test_a_property_without_key_or_value_breaks_nothing() -> None:
    """Only a transform can make such rows; its batch must not stop for ever because of one of them."""
    column = pa.array(
        [[{"key": None, "value": "x"}, {"key": HOP_COUNT, "value": None}], [{"key": HOP_COUNT, "value": "3"}]],
        MESSAGE.field("user_properties").type,
    )
    assert hop_counts(column).tolist() == [0, 3]
    batch = stored_rows({}, {})
    at = batch.schema.get_field_index("user_properties")
    found = apply(batch.set_column(at, "user_properties", column), RULES).column("user_properties").to_pylist()
    assert found == [[{"key": None, "value": "x"}, *pairs((HOP_COUNT, "1"))], pairs((HOP_COUNT, "4"))]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("max_qos", [0, 1, 2])
@pytest.mark.parametrize("persist", [True, False])
def test_the_wire_qos_is_the_lower_of_what_the_message_and_the_route_allow(qos: int, max_qos: int, persist: bool) -> None:
    found = out({"qos": qos}, max_qos=max_qos, persist=persist)
    assert found["qos"] == qos, "the queued QoS decides tracking: maxQoS does not lower it, and what was promised before stays"
    assert found["wire_qos"] == min(qos, max_qos)


def test_a_row_without_qos_counts_as_qos_1_or_as_0_where_nothing_persists() -> None:
    assert out({"qos": None})["qos"] == 1
    assert out({"qos": None}, persist=False)["qos"] == 0


@pytest.mark.parametrize(("preserve", "came", "leaves"), [(True, True, True), (True, False, False), (False, True, False)])
def test_retain_is_kept_only_where_the_route_says_so(preserve: bool, came: bool, leaves: bool) -> None:
    assert out({"retain": came}, preserve_retain=preserve)["retain"] is leaves


@pytest.mark.parametrize(
    ("destination", "topic"),
    [
        (None, "a/b"),
        ("{#}", "a/b"),
        ("cloud/{#}", "cloud/a/b"),
        ("{#}/up", "a/b/up"),
        ("x/{#}/y/{#}", "x/a/b/y/a/b"),
        ("one/topic", "one/topic"),
    ],
)
def test_the_destination_names_the_topic(destination: str | None, topic: str) -> None:
    assert out({"topic": "a/b"}, destination=destination)["topic"] == topic


def test_everything_else_passes_as_it_came() -> None:
    row = {
        "payload": b"\0\xff",
        "message_expiry": 360,
        "payload_format": 1,
        "content_type": "text/plain",
        "response_topic": "re/ply",
        "correlation_data": b"id",
    }
    found = out(row, destination="x/{#}")
    assert {name: found[name] for name in row} == row


def test_rules_travel_as_json() -> None:
    rules = RouteRules("r", "d/{#}", (("k", "v"),), True, 1, False, False)
    assert RouteRules.from_json(json.loads(json.dumps(dataclasses.asdict(rules)))) == rules


@pytest.mark.parametrize("rows", [1, 4096, 4097, 10_000])
def test_rows_without_properties_all_get_the_same_however_many_they_are(rows: int) -> None:
    batch = stored_rows(*[{}] * rows)
    found = apply(batch, dataclasses.replace(RULES, user_properties=(("a", "b"),))).column("user_properties")
    assert found.to_pylist() == [pairs(("a", "b"), (HOP_COUNT, "1"))] * rows
