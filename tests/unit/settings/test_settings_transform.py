"""A transform in the configuration: one of three ways to say it, only on Spark, files beside the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings.load import from_document, load
from bridgehead.settings.model import Settings

PLACE = "bridges[0].localSubscriptions[0].transform"


def node(transform: dict[str, Any], **rule: Any) -> Settings:
    rules = [{"filters": ["a/#"], "transform": transform, **rule}]
    return from_document({"bridges": [{"id": "b", "host": "h", "localSubscriptions": rules}]})


def fault(transform: dict[str, Any], **rule: Any) -> tuple[str, str]:
    with pytest.raises(SettingsError) as caught:
        node(transform, **rule)
    [found] = caught.value.faults
    return found


def test_a_transform_is_part_of_its_route_and_appends_and_fails_unless_told_otherwise() -> None:
    [route] = node({"python": "pkg.mod:function", "options": {"limit": 3, "names": ["a"]}}).routes()
    assert route.transform is not None
    assert (route.transform.python, route.transform.options) == ("pkg.mod:function", {"limit": 3, "names": ["a"]})
    assert (route.transform.output_mode, route.transform.on_error) == ("append", "fail")


def test_exactly_one_way_to_say_it_is_given() -> None:
    assert fault({}) == (PLACE, "give one of sql, sqlFile, python")
    assert fault({"sql": "SELECT 1", "python": "m:f"}) == (PLACE, "give one of sql, sqlFile, python, not sql and python")


@pytest.mark.parametrize("name", ["m", "m:", ":f", "m:f:g", "m:f()", "m-x:f", "1m:f"])
def test_a_function_is_named_with_its_module(name: str) -> None:
    assert fault({"python": name})[0] == f"{PLACE}.python"


@pytest.mark.parametrize(("key", "value"), [("outputMode", "all"), ("onError", "ignore"), ("options", [1])])
def test_what_else_it_says_is_checked(key: str, value: object) -> None:
    assert fault({"sql": "SELECT 1", key: value})[0] == f"{PLACE}.{key}"


@pytest.mark.parametrize("where", ["rule", "pipeline"])
def test_it_runs_on_spark_only(where: str) -> None:
    rule: dict[str, Any] = {"filters": ["a/#"], "transform": {"sql": "SELECT 1"}}
    pipeline = {}
    if where == "rule":
        rule["engine"] = "inline"
    else:
        pipeline = {"engine": "inline"}
    document = {"pipeline": pipeline, "bridges": [{"id": "b", "host": "h", "remoteSubscriptions": [rule]}]}
    with pytest.raises(SettingsError) as caught:
        from_document(document)
    assert caught.value.faults == [
        ("bridges[0].remoteSubscriptions[0].transform", "runs on Spark only; this route has engine: inline")
    ]


def test_a_file_of_sql_is_looked_for_beside_the_configuration_and_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(
        "bridges: [{id: b, host: h, localSubscriptions: [{filters: ['a/#'], transform: {sqlFile: sql/one.sql}}]}]"
    )
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        load(file, {})
    assert caught.value.faults[0][0] == f"{PLACE}.sqlFile (line 1)"
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "one.sql").write_text("SELECT * FROM messages")
    settings = load(file, {})
    [route] = settings.routes()
    assert route.transform is not None
    assert route.transform.sql_file == tmp_path / "sql" / "one.sql"
    assert settings.directory == tmp_path
