"""The rules of a route, a column at a time, against the same rules a row at a time in plain Python."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.batches import concat, row_weights
from bridgehead.columns.schema import MESSAGE, OUTBOX, STORED
from bridgehead.pipeline.hops import HOP_COUNT, hop_counts
from bridgehead.pipeline.protocol import ROUTED, ROUTED_CLIENTS
from bridgehead.pipeline.rules import (
    NO_DESTINATION,
    RouteRules,
    applied,
    apply,
    made_weights,
    most_added,
    split_routes,
    together,
)
from bridgehead.pipeline.service import _routed_rows
from making.rows import stored_rows

Row = dict[str, Any]

text = st.text("abé☃", max_size=4)
hop_values = st.sampled_from(
    [*("1", "2", "10", "0", "-3", "-1", "x", "", "1.5"), *("99999999999", "2147483647", "007", "+4", "é", " 4", "1_0", "--1")]
)
pair = st.one_of(
    st.fixed_dictionaries({"key": text, "value": text}),
    st.fixed_dictionaries({"key": st.just(HOP_COUNT), "value": hop_values}),
)
row = st.fixed_dictionaries(
    {
        "topic": st.text("ab/é", min_size=1, max_size=6),
        "payload": st.binary(max_size=4),
        "qos": st.sampled_from([0, 1, 2, None]),
        "retain": st.booleans(),
        "received_at": st.integers(0, 10**15),
        "message_expiry": st.none() | st.integers(0, 2**32 - 1),
        "payload_format": st.none() | st.integers(0, 1),
        "content_type": st.none() | text,
        "response_topic": st.none() | text,
        "correlation_data": st.none() | st.binary(max_size=3),
        "user_properties": st.none() | st.lists(pair, max_size=4),
        "route": st.sampled_from(["r", "s", "t"]),
        "client_id": st.sampled_from(["c", "é", "a/b"]),
    }
)
rules = st.builds(
    RouteRules,
    route=st.just("r"),
    destination=st.sampled_from(
        [
            *(None, "{#}", "cloud/{#}", "{#}/x", "a/{#}/b/{#}/c", "fixed", "é/{#}"),
            *("{1}", "x/{2}", "{2}-{1}/é{1}", "{2-3}", "{2-#}/x/{1}", "{3-2}/{2}", "\\{1}/{1}", "$\\{a}", "{4}"),
            *("{+1}", "up/{+#}/{+2}", "{+2}.{+1}/{#}", "${client.id}", "x/${client.id}-{2}/{1}"),
        ]
    ),
    filters=st.sampled_from([(), ("a/+",), ("+/b/#", "+/+"), ("#",), ("b",)]),
    rewrite=st.sampled_from([(), (("a", ""),), (("^(.*)/b", r"\1/c"), ("c", "a/a")), (("^.*$", ""),)]),
    user_properties=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    preserve_retain=st.booleans(),
    max_qos=st.integers(0, 2),
    persist=st.booleans(),
    count_hops=st.booleans(),
    hops_unsaid=st.sampled_from([0, 0, 1, 2]),
)


def hop_of(pairs: list[dict[str, str]]) -> int:
    for one in pairs:
        if one["key"] == HOP_COUNT:
            digits = one["value"].removeprefix("-") if one["value"].startswith("-") else one["value"].removeprefix("+")
            known = digits != "" and set(digits) <= set("0123456789") and abs(int(digits)) < 2**31
            return int(one["value"]) if known else 0
    return 0


def selected(topic_filter: str, topic: str) -> dict[str, str | None] | None:
    """What each wildcard of a filter stands for in a topic; None if the filter does not select it."""
    found: dict[str, str | None] = {}
    wanted, levels = topic_filter.split("/"), topic.split("/")
    for number, want in enumerate(wanted):
        if want == "#":
            found["+#"] = "/".join(levels[number:]) if levels[number:] else None
            return found
        if number == len(levels) or want not in ("+", levels[number]):
            return None
        if want == "+":
            found[f"+{len(found) + 1}"] = levels[number]
    return found if len(wanted) == len(levels) else None


def standing_for(inner: str, topic: str, captured: dict[str, str | None]) -> str | None:
    if inner.startswith(("+", "client")):
        return captured.get(inner)
    levels = topic.split("/")
    first, _, last = ("1-#" if inner == "#" else inner).partition("-")
    end = len(levels) if last == "#" else int(last or first)
    chosen = [each for number, each in enumerate(levels, 1) if int(first) <= number <= end]
    return "/".join(chosen) if chosen else None


def destination_of(one: Row, rule: RouteRules) -> str:
    """The empty text where there is none."""
    topic, client = one["topic"], one.get("client_id") or ""
    if rule.destination is not None:
        if "${client.id}" in rule.destination and "/" in client:
            return ""
        matching = (found for each in rule.filters if (found := selected(each, topic)) is not None)
        captured = {**next(matching, {}), "client.id": client or None}
        levels = []
        for level in rule.destination.split("/"):
            values = [standing_for(inner, topic, captured) for inner in re.findall(r"(?<!\\)\$?\{([^}]*)\}", level)]
            if None not in values:
                left = iter(values)
                level = re.sub(r"(?<!\\)\$?\{[^}]*\}", lambda _, left=left: str(next(left)), level)
                levels.append(level.replace("\\{", "{"))
        topic = "/".join(levels)
    for pattern, replacement in rule.rewrite:
        topic = re.sub(pattern, replacement, topic)
    return topic


def twin(one: Row, rule: RouteRules) -> Row:
    out = {name: one.get(name) for name in OUTBOX.names}
    out["topic"] = destination_of(one, rule)
    out["qos"] = int(rule.persist) if one["qos"] is None else one["qos"]
    out["wire_qos"] = min(out["qos"], rule.max_qos)
    out["retain"] = one["retain"] and rule.preserve_retain
    pairs = [dict(each) for each in one["user_properties"] or []]
    added = [{"key": key, "value": value} for key, value in rule.user_properties]
    if rule.count_hops:
        own = [each for each in pairs if each["key"] != HOP_COUNT]
        out["user_properties"] = [*own, *added, {"key": HOP_COUNT, "value": str((hop_of(pairs) or rule.hops_unsaid) + 1)}]
    else:
        out["user_properties"] = [*pairs, *added]
    return out


def as_given(batch: pa.RecordBatch) -> list[Row]:
    at = batch.schema.get_field_index("received_at")
    plain = batch.set_column(at, "received_at", batch.column(at).cast(pa.int64()))
    found: list[Row] = plain.to_pylist()
    return found


@settings(max_examples=250, deadline=None)
@given(st.lists(row, min_size=1, max_size=8), rules, st.data())
def test_the_rules_are_those_of_their_plain_twin(rows: list[Row], rule: RouteRules, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    schema = data.draw(st.sampled_from([STORED, MESSAGE, pa.schema([f for f in STORED if f.name != "client_id"])]))
    batch = pa.RecordBatch.from_pylist([{name: one.get(name) for name in schema.names} for one in rows], schema=schema)
    out = apply(batch.slice(first, count), rule)
    assert out.schema == OUTBOX
    known = [{name: value for name, value in one.items() if name in schema.names} for one in rows[first : first + count]]
    assert as_given(out) == [twin(one, rule) for one in known]
    out.validate(full=True)


@settings(max_examples=250, deadline=None)
@given(st.lists(row, min_size=1, max_size=8), rules)
def test_rows_without_a_destination_are_dead_letters_as_they_came_the_others_go_on(rows: list[Row], rule: RouteRules) -> None:
    """The rules travel to Spark's workers as JSON; there and in the node they are this one function."""
    rows = [{**one, "route": "r", "user_properties": one["user_properties"] or [], "qos": one["qos"] or 0} for one in rows]
    travelled = RouteRules.from_json(json.loads(json.dumps(asdict(rule))))
    stored = stored_rows(*rows)
    scanned, _ = _routed_rows(0, stored, ROUTED_CLIENTS if travelled.asks_for_client else ROUTED)
    made = list(applied(stored, "log", 0, {"r": rule}))
    for (_, here, reason), (_, there, same) in zip(made, applied(scanned, "log", 0, {"r": travelled}), strict=True):
        assert (here, reason) == (there, same), "in the node and in Spark's workers alike"
    assert len(made) == len({reason for _, _, reason in made})
    found = {reason: as_given(batch) for _, batch, reason in made}
    going = [one for one in rows if destination_of(one, rule)]
    assert found.get(None, []) == [twin(one, rule) for one in going]
    dead = [{name: (one | {"wire_qos": one["qos"]})[name] for name in OUTBOX.names} for one in rows if one not in going]
    assert found.get(NO_DESTINATION, []) == dead


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(row, st.sampled_from("abc")), min_size=1, max_size=12), rules, rules, st.booleans())
def test_routes_with_the_same_rules_are_done_at_once_and_each_as_if_alone(
    rows: list[tuple[Row, str]], rule: RouteRules, other: RouteRules, identified: bool
) -> None:
    ids = ("id", "edge") if identified else None
    of_route = {name: replace(own, route=name, message_id=ids) for name, own in zip("abc", (rule, rule, other), strict=True)}
    routed = [{**one, "route": name, "user_properties": one["user_properties"] or [], "qos": one["qos"] or 0}
              for one, name in rows]  # fmt: skip
    batch = stored_rows(*routed)
    assert len({id(made) for _, made, reason in together(batch, "log", 7, of_route) if reason is None}) <= 2
    found = {(route, reason): as_given(made) for route, made, reason in applied(batch, "log", 7, of_route)}
    alone: dict[tuple[str, str | None], list[Row]] = {}
    for at, one in enumerate(routed):
        for route, made, reason in applied(stored_rows(one), "log", 7 + at, of_route):
            alone.setdefault((route, reason), []).extend(as_given(made))
    assert found == alone


@settings(max_examples=250, deadline=None)
@given(st.lists(row, min_size=1, max_size=8), rules, st.sampled_from([0, 5, 95, 10**12 - 3]), st.booleans(), st.data())
def test_what_rows_will_weigh_is_known_before_they_are_made(
    rows: list[Row], rule: RouteRules, offset: int, identified: bool, data: st.DataObject
) -> None:
    rule = replace(rule, message_id=("id", "edge")) if identified else rule
    first = data.draw(st.integers(0, len(rows) - 1))
    stored = stored_rows(*({**one, "route": "r", "qos": one["qos"] or 0} for one in rows)).slice(first)
    offsets = np.arange(offset, offset + stored.num_rows)
    found = made_weights(stored, rule, "log", offsets, stored.column("client_id"))
    going = [bool(destination_of(one, rule)) for one in rows[first:]]
    made = [np.diff(row_weights(batch)) for _, batch, reason in applied(stored, "log", offset, {"r": rule}) if reason is None]
    assert found[going].tolist() == [int(each) for weights in made for each in weights]
    assert (found <= np.diff(row_weights(stored)) + most_added(rule, "log")).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(row, min_size=1, max_size=8), st.data())
def test_the_hop_counts_are_those_of_each_row_also_in_a_slice(rows: list[Row], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    column = stored_rows(*rows).column("user_properties").slice(first)
    assert hop_counts(column).tolist() == [hop_of(one["user_properties"] or []) for one in rows[first:]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(row, min_size=1, max_size=5), min_size=1, max_size=4), st.booleans(), st.data())
def test_rows_are_split_by_route_and_keep_their_order(parts: list[list[Row]], plain: bool, data: st.DataObject) -> None:
    batch = concat([stored_rows(*part) for part in parts])
    rows = [one for part in parts for one in part]
    first = data.draw(st.integers(0, len(rows) - 1))
    batch, rows = batch.slice(first), rows[first:]
    if plain:
        at = batch.schema.get_field_index("route")
        batch = batch.set_column(at, "route", batch.column(at).dictionary_decode())
    found = {route: own for route, own, _ in split_routes(batch)}
    assert sum(len(part) for part in found.values()) == len(rows)
    for route, part in found.items():
        assert part.column("payload").to_pylist() == [one["payload"] for one in rows if one["route"] == route]
        assert part.column("topic").to_pylist() == [one["topic"] for one in rows if one["route"] == route]
