"""Helpers on record batches: they see through slices, and count all that a message brings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bridgehead.columns.batches import (
    CONSTANT_ROWS,
    checksum,
    column_data,
    concat,
    constant,
    durable_rows,
    list_bounds,
    message_rows,
    row_ends,
    weight,
)
from bridgehead.columns.schema import MESSAGE
from making.rows import numbered, outbox_rows, stored_rows

ROWS = [
    {"topic": "a", "payload": b"12345"},
    {"topic": "bcd", "payload": b"", "content_type": "text", "response_topic": "re"},
    {"topic": "ef", "payload": b"1", "user_properties": [{"key": "kk", "value": "vvv"}, {"key": "k", "value": ""}]},
    {"topic": "g", "payload": b"22", "correlation_data": b"xyz"},
]
SIZES = [6, 3 + 6, 3 + 6, 3 + 3]


def test_the_weight_of_a_batch_counts_everything_that_its_messages_bring() -> None:
    assert weight(outbox_rows(*ROWS)) == 64 * 4 + sum(SIZES)


def test_durable_rows_are_counted_in_slices_and_beside_rows_that_an_earlier_life_has_lost() -> None:
    rows = outbox_rows(*({"qos": qos} for qos in (1, 0, 2, 0, 0, 1)))
    assert [durable_rows(rows.slice(start, 3)) for start in range(4)] == [2, 1, 1, 1]
    assert durable_rows(rows.slice(2, 0)) == 0
    assert durable_rows(rows.take(pa.array([2, None, 0, 1]))) == 2


def test_the_weight_and_the_durable_rows_of_a_batch_are_its_own_whoever_was_asked_before() -> None:
    light, heavy = outbox_rows({"qos": 0}), outbox_rows({"payload": b"12345", "qos": 1}, {"qos": 2})
    expected = [weight(light), weight(heavy)]
    assert [weight(batch) for batch in (heavy, light, light, heavy)] == [expected[1], expected[0], expected[0], expected[1]]
    assert [durable_rows(batch) for batch in (light, heavy, heavy, light)] == [0, 2, 2, 0]


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (2, 1), (1, 2), (3, 1), (2, 0)])
def test_the_weight_of_a_slice_is_that_of_its_rows(first: int, count: int) -> None:
    part = outbox_rows(*ROWS).slice(first, count)
    assert weight(part) == 64 * count + sum(SIZES[first : first + count])


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (2, 1), (3, 1), (2, 0)])
def test_row_ends_says_how_many_bytes_the_leading_rows_bring(first: int, count: int) -> None:
    part = outbox_rows(*ROWS).slice(first, count)
    assert row_ends(part).tolist() == [0, *np.cumsum(SIZES[first : first + count]).tolist()]


def test_the_bytes_of_a_sliced_column_are_found() -> None:
    ends, data = column_data(pa.array(["ab", "cde", "f"]).slice(1, 2))
    assert data[ends[0] : ends[-1]].tobytes() == b"cdef"


def test_the_bounds_of_a_sliced_list_column_are_those_of_its_rows() -> None:
    lists = pa.array([[1], [2, 3], [], [4]])
    assert list_bounds(lists) == (0, 4)
    assert list_bounds(lists.slice(1, 2)) == (1, 3)
    assert list_bounds(lists.slice(2, 1)) == (3, 3)
    assert list_bounds(lists.slice(2, 0)) == (0, 0)


def test_a_constant_column_has_its_value_in_every_row_whatever_its_length() -> None:
    for rows in (0, 1, CONSTANT_ROWS, CONSTANT_ROWS + 1):
        column = constant("x", pa.string(), rows)
        assert len(column) == rows
        assert set(column.to_pylist()) <= {"x"}


def test_equal_values_of_different_types_are_different_columns() -> None:
    assert constant(1, pa.int32(), 1).to_pylist() == [1]
    assert constant(True, pa.bool_(), 1).to_pylist() == [True]
    assert constant(0, pa.int32(), 1).to_pylist() == [0]
    assert constant(False, pa.bool_(), 1).to_pylist() == [False]


def test_the_checksum_is_that_of_the_rows_however_they_are_cut() -> None:
    batch = outbox_rows(*ROWS)
    assert checksum([batch.slice(1, 2)]) == checksum([outbox_rows(*ROWS[1:3])])
    assert checksum([batch]) != checksum([outbox_rows(*reversed(ROWS))])


def test_a_checksum_sees_where_topic_and_payload_end() -> None:
    one = outbox_rows({"topic": "a", "payload": b"b"}, {"topic": "c", "payload": b""})
    other = outbox_rows({"topic": "a", "payload": b""}, {"topic": "c", "payload": b"b"})
    assert checksum([one]) != checksum([other])


def test_batches_with_different_dictionaries_become_one() -> None:
    one, other = stored_rows(*numbered(0, 2, route="a")), stored_rows(*numbered(2, 2, route="b", client_id="d"))
    joined = concat([one, other])
    assert joined.column("route").to_pylist() == ["a", "a", "b", "b"]
    assert joined.column("client_id").to_pylist() == ["c", "c", "d", "d"]


def test_stored_rows_become_the_message_table() -> None:
    stored = concat([stored_rows(*numbered(0, 2, route="a")), stored_rows(*numbered(2, 1, route="b"))]).slice(1)
    table = message_rows(stored, 41, 0, "plant", {"a": "bridge-a", "b": "bridge-b"})
    assert table.schema == MESSAGE
    assert table.column("bridge").to_pylist() == ["bridge-a", "bridge-b"]
    assert table.column("route").to_pylist() == ["a", "b"]
    assert table.column("journal_offset").to_pylist() == [41, 42]
    assert table.column("node").to_pylist() == ["plant", "plant"]
    assert table.column("payload").to_pylist() == [b"1", b"2"]
