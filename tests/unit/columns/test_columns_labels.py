"""Labels: a name for each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bridgehead.columns.labels import Labels, joined


def labels(*of_row: int) -> Labels:
    return Labels(("a", "b", "c"), np.array(of_row, np.int32))


def test_labels_are_a_dictionary_column_and_back() -> None:
    column = labels(0, 2, 0).column()
    assert column.to_pylist() == ["a", "c", "a"]
    assert Labels.of(column.slice(1)).of_row.tolist() == [2, 0]
    assert Labels.of(column).names == ("a", "b", "c")


def test_one_name_for_all_rows() -> None:
    assert Labels.one("a", 3).column().to_pylist() == ["a", "a", "a"]
    assert Labels.one("a", 3).counted() == [("a", 3)]
    assert Labels.one("a", 3).counted(np.array([True, False, True])) == [("a", 2)]


def test_a_row_without_a_name_has_none() -> None:
    column = labels(0, 1).column().take(pa.array([None, 1, 0]))
    assert Labels.of(column).of_row.tolist() == [-1, 1, 0]


def test_rows_are_counted_by_name_where_there_are_any() -> None:
    assert labels(0, 2, 2, 0, 2).counted() == [("a", 2), ("c", 3)]
    assert labels(0, 2, 2, 0, 2).counted(np.array([True, False, True, True, False])) == [("a", 2), ("c", 1)]


def test_names_that_no_row_has_can_be_left_out() -> None:
    short = labels(2, 0, 2).short()
    assert short.names == ("a", "c")
    assert short.column().to_pylist() == ["c", "a", "c"]


def test_the_places_of_each_name_keep_their_order() -> None:
    assert [(name, rows.tolist()) for name, rows in labels(2, 0, 2, 0).places()] == [("a", [1, 3]), ("c", [0, 2])]
    assert [(name, rows.tolist()) for name, rows in Labels.one("a", 2).places()] == [("a", [0, 1])]


def test_labels_of_several_batches_are_joined_whatever_their_names() -> None:
    assert joined([labels(0, 2), labels(1)]).column().to_pylist() == ["a", "c", "b"]
    mixed = joined([labels(0, 2), Labels.one("z", 2), Labels(("c", "a"), np.array([1, 0], np.int32))])
    assert mixed.column().to_pylist() == ["a", "c", "z", "z", "a", "c"]
