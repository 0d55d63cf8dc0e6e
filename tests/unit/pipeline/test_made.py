"""Rows that a transform has made: defaults, ids, and what is no message."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from bridgehead.columns.batches import Batch
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import OUTBOX
from bridgehead.errors import TransformError
from bridgehead.pipeline.hops import HOP_COUNT
from bridgehead.pipeline.made import Ids, StageMade, completed, sorted_out, without_destination, without_nulls
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.task import Stager


def rows(*given: dict[str, Any]) -> Batch:
    """Rows with the columns that the first one names."""
    fields = {field.name: field.type for field in OUTBOX} | {"journal_offset": pa.int64()}
    return pa.RecordBatch.from_pylist(list(given), schema=pa.schema([(name, fields[name]) for name in given[0]]))


def made(*given: dict[str, Any], rules: RouteRules | None = None, hops: int = 0, qos_cap: int = 2) -> Batch:
    return apply(completed(rows(*given), qos_cap), rules or RouteRules("r"), hops)


def properties(batch: Batch) -> list[dict[str, str]]:
    return [{pair["key"]: pair["value"] for pair in pairs} for pairs in batch.column("user_properties").to_pylist()]


def test_topic_and_payload_are_enough_for_a_message() -> None:
    [row] = made({"topic": "t", "payload": b"p"}).to_pylist()
    assert (row["topic"], row["payload"], row["qos"], row["wire_qos"], row["retain"]) == ("t", b"p", 1, 1, False)
    assert row["received_at"] is not None
    assert row["user_properties"] == [{"key": HOP_COUNT, "value": "1"}]


def test_no_row_has_a_qos_above_the_cap() -> None:
    given = [{"topic": "t", "payload": b"", "qos": qos} for qos in (None, 0, 1, 2)]
    assert made(*given, qos_cap=0).column("qos").to_pylist() == [0, 0, 0, 0]
    assert made(*given).column("qos").to_pylist() == [1, 0, 1, 2]


def test_a_row_that_says_no_hop_count_has_the_highest_of_its_batch_and_one_more() -> None:
    assert properties(made({"topic": "t", "payload": b""}, hops=3)) == [{HOP_COUNT: "4"}]
    given = [{"topic": "t", "payload": b"", "user_properties": pairs} for pairs in (
        [{"key": HOP_COUNT, "value": "1"}],
        [{"key": "k", "value": "v"}],
        [],
        None,
    )]  # fmt: skip
    highest = {HOP_COUNT: "3"}
    assert properties(made(*given, hops=2)) == [{HOP_COUNT: "2"}, {"k": "v", **highest}, highest, highest]
    assert properties(made(*given, hops=2, rules=RouteRules("r", count_hops=False)))[2:] == [{}, {}]


GOOD = {"topic": "t", "payload": b"", "qos": 1}


@pytest.mark.parametrize(
    ("reason", "wrong"),
    [
        ("no-topic", {"topic": None}),
        ("bad-topic", {"topic": ""}),
        ("bad-topic", {"topic": "a/+/b"}),
        ("bad-topic", {"topic": "a/#"}),
        ("bad-topic", {"topic": "a\0b"}),
        ("bad-topic", {"topic": "x" * 65_536}),
        ("no-payload", {"payload": None}),
        ("bad-qos", {"qos": -1}),
        ("bad-property", {"message_expiry": 2**32}),
        ("bad-property", {"payload_format": 2}),
        ("bad-property", {"response_topic": "a/+"}),
        ("bad-property", {"content_type": "x" * 65_536}),
        ("bad-property", {"correlation_data": b"x" * 65_536}),
        ("bad-property", {"user_properties": [{"key": None, "value": "v"}]}),
        ("bad-property", {"user_properties": [{"key": "k", "value": None}]}),
        ("bad-property", {"user_properties": [{"key": "k", "value": "x" * 65_536}]}),
    ],
)
def test_a_row_that_is_no_message_is_sorted_out_with_its_reason_and_the_others_stay(reason: str, wrong: dict[str, Any]) -> None:
    [name] = wrong
    first, second = ({**GOOD, name: GOOD.get(name), "topic": topic} for topic in ("first", "second"))
    bad = {**first, **wrong}
    found = dict(sorted_out(made(first, bad, second)))
    assert found.keys() == {None, reason}
    assert found[None].column("topic").to_pylist() == ["first", "second"]
    kept = without_nulls(found[reason])
    assert kept.num_rows == 1
    assert kept.column("topic").null_count == kept.column("payload").null_count == 0


def test_a_topic_that_is_no_text_is_sorted_out() -> None:
    topics = pa.array([b"good", b"\xff\xfe"], pa.binary()).view(pa.string())
    batch = made({**GOOD}, {**GOOD})
    batch = batch.set_column(0, OUTBOX.field("topic"), topics)
    found = dict(sorted_out(batch))
    assert found[None].column("topic").to_pylist() == ["good"]
    assert without_nulls(found["bad-topic"]).num_rows == 1


def test_who_published_a_row_is_known_where_the_transform_kept_it() -> None:
    fields = pa.schema([("topic", pa.string()), ("payload", pa.binary()), ("client_id", pa.string())])
    batch = pa.RecordBatch.from_pylist([{"topic": "t", "payload": b"", "client_id": "sensor"}], schema=fields)
    rules = RouteRules("r", "by/${client.id}")
    assert apply(completed(batch, 2), rules).column("topic").to_pylist() == ["by/sensor"]
    assert made({"topic": "t", "payload": b""}, rules=rules).column("topic").to_pylist() == ["by"]


def test_a_row_whose_topic_has_no_destination_is_told_from_one_without_a_topic() -> None:
    whole = completed(rows(*({**GOOD, "topic": topic} for topic in ("a/b", "a", "", None))), 2)
    nowhere = without_destination(whole, apply(whole, RouteRules("r", "{2}")))
    assert nowhere is not None
    assert nowhere.to_pylist() == [False, True, False, False]
    assert without_destination(whole, apply(whole, RouteRules("r", "x/{#}"))) is None


def test_a_row_without_a_destination_is_a_dead_letter_also_where_other_faults_fail_the_batch() -> None:
    staged: list[tuple[str | None, list[str]]] = []

    class Kept:
        def put(self, routes: Labels, batch: Batch, order: int, reason: str | None = None) -> None:
            staged.append((reason, batch.column("topic").to_pylist()))

    stage = StageMade("", 0, "log", RouteRules("r", "{2}"), "0", 0, 2, dead_letters=False)
    given = rows(*({**GOOD, "topic": topic} for topic in ("a/b", "a", "c/d")))
    stage._stage(cast(Stager, Kept()), given, Ids("", ""), 0)
    assert staged == [("transform-no-destination", ["a"]), (None, ["b", "d"])]
    stage._stage(cast(Stager, Kept()), rows({**GOOD, "topic": "a"}), Ids("", ""), 0)
    assert staged[2:] == [("transform-no-destination", ["a"])], "and nothing of those that are not there"
    with pytest.raises(TransformError, match="no payload"):
        stage._stage(cast(Stager, Kept()), rows({**GOOD, "topic": "a/b", "payload": None}), Ids("", ""), 0)


def test_a_batch_of_messages_is_handed_on_as_it_is() -> None:
    batch = made({**GOOD}, {**GOOD})
    assert [(reason, rows is batch) for reason, rows in sorted_out(batch)] == [(None, True)]


def test_ids_are_by_offset_and_those_of_rows_with_the_same_offset_differ() -> None:
    ids = Ids("log:q.7.0", "log")
    offsets = [{"journal_offset": each} for each in (5, 6, 6, 6, 8, None)]
    assert ids.of(rows(*offsets), "n:life").to_pylist() == [
        "n:life:log:5", "n:life:log:6", "n:life:log:6.1", "n:life:log:6.2", "n:life:log:8", "n:life:log:q.7.0.5",
    ]  # fmt: skip


def test_ids_of_a_message_whose_rows_are_in_two_batches_differ() -> None:
    ids = Ids("log:q.7.0", "log")
    six, seven = {"journal_offset": 6}, {"journal_offset": 7}
    assert ids.of(rows(six, six), "n").to_pylist() == ["n:log:6", "n:log:6.1"]
    assert ids.of(rows(six, six, seven), "n").to_pylist() == ["n:log:6.2", "n:log:6.3", "n:log:7"]


def test_rows_that_come_from_no_message_alone_have_ids_by_their_place() -> None:
    ids = Ids("log:q.7.0", "log")
    assert ids.of(rows({"topic": "t"}, {"topic": "t"}), "n").to_pylist() == ["n:log:q.7.0.0", "n:log:q.7.0.1"]
    assert ids.of(rows({"topic": "t"}), "n").to_pylist() == ["n:log:q.7.0.2"]
