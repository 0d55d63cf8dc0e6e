"""The settings of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings.advice import advice
from bridgehead.settings.load import from_document, parse
from bridgehead.settings.model import Settings


def document(archive: object, **route: Any) -> dict[str, Any]:
    rule = {"filters": ["a/#"], "archive": archive, **route}
    return {"bridges": [{"id": "b", "host": "h", "localSubscriptions": [rule]}]}


def settings(archive: object, **route: Any) -> Settings:
    return from_document(document(archive, **route))


def fault(archive: object, **route: Any) -> tuple[str, str]:
    with pytest.raises(SettingsError) as error:
        settings(archive, **route)
    [found] = error.value.faults
    return found


def test_an_archive_is_parquet_by_date_unless_it_says_otherwise() -> None:
    [route] = settings({"path": "/lake"}).routes()
    assert route.archive is not None
    assert (route.archive.path, route.archive.format, route.archive.partition_by) == (Path("/lake"), "parquet", ("date",))
    assert route.has_own_query


def test_its_path_begins_where_the_configuration_file_is() -> None:
    text = "bridges: [{id: b, host: h, remoteSubscriptions: [{filters: [a], archive: {path: ./lake/a}}]}]"
    [route] = parse(text, {}, Path("/etc/bridgehead")).routes()
    assert route.archive is not None
    assert route.archive.path == Path("/etc/bridgehead/lake/a")


@pytest.mark.parametrize("columns", [[], ["date"], ["bridge", "route", "date", "topicLevel1", "topicLevel12"]])
def test_it_is_partitioned_by_date_bridge_route_and_levels_of_the_topic(columns: list[str]) -> None:
    [route] = settings({"path": "/lake", "partitionBy": columns}).routes()
    assert route.archive is not None
    assert list(route.archive.partition_by) == columns


@pytest.mark.parametrize(
    ("archive", "path", "text"),
    [
        ({"path": "/l", "partitionBy": ["hour"]}, "partitionBy", "'hour' is none of date, bridge, route, topicLevel1"),
        ({"path": "/l", "partitionBy": ["topicLevel0"]}, "partitionBy", "'topicLevel0' is none of"),
        ({"path": "/l", "partitionBy": ["date", "date"]}, "partitionBy", "more than once"),
        ({"path": "s3a://bucket/lake"}, "path", "a directory, not an address"),
        ({"path": "/l", "format": "a b"}, "format", ""),
        ({}, "path", "required"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(archive: object, path: str, text: str) -> None:
    where, what = fault(archive)
    assert where.startswith(f"bridges[0].localSubscriptions[0].archive.{path}")
    assert text in what


def test_it_needs_spark() -> None:
    where, what = fault({"path": "/lake"}, engine="inline")
    assert where.startswith("bridges[0].localSubscriptions[0].archive")
    assert "runs on Spark only" in what


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_nothing_is_to_say_about_a_format_that_holds_each_row_once(form: str) -> None:
    assert list(advice(settings({"path": "/lake", "format": form}))) == []


def test_a_format_that_may_hold_a_row_twice_is_worth_a_word() -> None:
    [line] = advice(settings({"path": "/lake", "format": "orc"}))
    assert line.startswith("bridges[0].localSubscriptions[0].archive.format: orc holds each row at least once")


def test_an_archive_whose_small_files_cannot_be_merged_is_worth_a_word() -> None:
    [line] = advice(settings({"path": "/lake", "partitionBy": []}))
    assert "small files are never merged" in line
