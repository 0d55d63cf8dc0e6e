"""Names and places in an archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import TIMESTAMP
from bridgehead.pipeline.archive.layout import (
    MAX_VALUE_BYTES,
    escaped,
    key_of,
    merged_name,
    segment,
    visible_name,
)
from bridgehead.pipeline.archive.partitions import partitioned, with_partition_columns
from bridgehead.pipeline.archive.spec import ArchiveSpec

DAY_US = 86_400_000_000
SPEC = ArchiveSpec("/lake", "plant", "cloud.push.1234", "cloud")


def batch(**columns: Any) -> Batch:
    return pa.RecordBatch.from_pydict(columns)


def topics(*names: str | None) -> pa.Array:
    return pa.array(names, pa.string())


def places(rows: Batch, *partition_by: str, now_us: int = 0) -> dict[str, list[Any]]:
    spec = replace(SPEC, partition_by=partition_by)
    return {directory: own.column("n").to_pylist() for directory, own in partitioned(rows, spec, now_us)}


def test_the_name_of_a_file_says_query_batch_and_partition_and_sorts_as_its_rows_do() -> None:
    key = key_of(SPEC)
    first = visible_name(key, "ab12", 5, 90, 3, 0, 0)
    second = visible_name(key, "ab12", 90, 100, 4, 1, 0)
    assert key.startswith("cloud.push.1234-")
    assert first == f"part-{key}-ab12-000000000000005-000000000000090-3-00000-00000.parquet"
    assert first < second


def test_two_nodes_and_two_routes_never_share_a_name() -> None:
    keys = {key_of(replace(SPEC, node=node, route=route)) for node in ("a", "b") for route in ("r" * 80 + "1", "r" * 80 + "2")}
    assert len(keys) == 4
    assert all(len(key) < 80 for key in keys)


def test_a_merged_file_sorts_where_its_first_did_and_its_name_does_not_grow() -> None:
    once = merged_name("part-k-1.parquet", "aaaa")
    assert once == "part-k-1~aaaa.parquet"
    assert merged_name(once, "bbbb") == "part-k-1~bbbb.parquet"


@pytest.mark.parametrize(
    ("value", "name"),
    [("a b", "a b"), ("a/b", "a%2Fb"), ("50%", "50%25"), ("x=y", "x%3Dy"), ("ü:1", "ü%3A1"), ("\x01", "%01")],
)
def test_what_means_something_in_a_path_is_escaped(value: str, name: str) -> None:
    assert escaped(value) == name


def test_a_value_too_long_for_a_directory_is_cut_and_stays_apart_from_others() -> None:
    long = [escaped("ü/" * 300 + last) for last in "ab"]
    assert len(set(long)) == 2
    assert all(len(each.encode()) <= MAX_VALUE_BYTES for each in long)


def test_no_value_is_said_as_hive_says_it() -> None:
    assert segment("topicLevel2", None) == segment("topicLevel2", "") == "topicLevel2=__HIVE_DEFAULT_PARTITION__"


def test_rows_go_to_the_directory_of_their_day_in_utc_in_their_order() -> None:
    received = pa.array([0, DAY_US, 5, DAY_US - 1, DAY_US + 1], TIMESTAMP)
    rows = batch(n=[1, 2, 3, 4, 5], received_at=received)
    assert places(rows, "date") == {"date=1970-01-01": [1, 3, 4], "date=1970-01-02": [2, 5]}


@pytest.mark.parametrize("kind", [pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")])
def test_the_zone_of_a_column_moves_no_row_to_another_day(kind: pa.DataType) -> None:
    received = pa.array([DAY_US - 1000], TIMESTAMP).cast(kind)
    assert places(batch(n=[1], received_at=received), "date") == {"date=1970-01-01": [1]}


def test_a_row_without_a_moment_belongs_to_the_day_on_which_it_is_written() -> None:
    assert places(batch(n=[1, 2]), "date", now_us=DAY_US) == {"date=1970-01-02": [1, 2]}
    partly = pa.array([0, None], TIMESTAMP)
    assert places(batch(n=[1, 2], received_at=partly), "date", now_us=DAY_US) == {
        "date=1970-01-01": [1],
        "date=1970-01-02": [2],
    }


def test_levels_of_the_topic_are_counted_from_one() -> None:
    rows = batch(n=[1, 2, 3, 4], topic=topics("a/b", "a", "a//c", None))
    assert places(rows, "topicLevel1", "topicLevel2") == {
        "topicLevel1=a/topicLevel2=b": [1],
        "topicLevel1=a/topicLevel2=__HIVE_DEFAULT_PARTITION__": [2, 3],
        "topicLevel1=__HIVE_DEFAULT_PARTITION__/topicLevel2=__HIVE_DEFAULT_PARTITION__": [4],
    }


def test_bridge_and_route_are_those_of_the_archive_where_the_rows_do_not_say() -> None:
    assert places(batch(n=[1]), "bridge", "route") == {"bridge=cloud/route=cloud.push.1234": [1]}


def test_what_the_directory_says_is_not_in_the_file() -> None:
    rows = batch(n=[1, 2], bridge=["cloud", "other"], topic=["a", "b"])
    found = dict(partitioned(rows, replace(SPEC, partition_by=("bridge",)), 0))
    assert list(found) == ["bridge=cloud", "bridge=other"]
    assert found["bridge=cloud"].schema.names == ["n", "topic"]


def test_a_column_of_the_transform_decides_where_it_has_the_name() -> None:
    rows = batch(n=[1, 2], date=["2020-02-02", None], received_at=pa.array([0, 0], TIMESTAMP))
    assert places(rows, "date") == {"date=2020-02-02": [1], "date=__HIVE_DEFAULT_PARTITION__": [2]}


def test_without_partitions_all_rows_are_in_one_place() -> None:
    assert places(batch(n=[1, 2])) == {"": [1, 2]}


def test_a_column_that_cannot_be_a_name_is_an_error_that_says_so() -> None:
    with pytest.raises(pa.ArrowException):
        places(batch(n=[1], date=[[1, 2]]), "date")


def test_a_format_that_makes_its_own_directories_gets_its_partitions_as_columns() -> None:
    rows = batch(n=[1, 2], topic=topics("a/b", "a"), received_at=pa.array([0, DAY_US], TIMESTAMP), bridge=["x", "y"])
    spec = replace(SPEC, format="delta", partition_by=("date", "bridge", "route", "topicLevel2"))
    found = with_partition_columns(rows, spec, 0).to_pydict()
    assert [str(day) for day in found["date"]] == ["1970-01-01", "1970-01-02"]
    assert (found["bridge"], found["route"], found["topicLevel2"]) == (["x", "y"], ["cloud.push.1234"] * 2, ["b", None])
