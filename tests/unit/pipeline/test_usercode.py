"""Finding a user's function, and telling what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.errors import TransformError
from bridgehead.pipeline.jobconfig import TransformRule
from bridgehead.pipeline.transformquery import is_of_the_rows
from bridgehead.pipeline.trial import fault_of
from bridgehead.pipeline.usercode import function_of, text_of


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_function_is_found_by_its_module_and_its_name(modules: Path) -> None:
    (modules / "found_here.py").write_text("def f(messages):\n    return messages\n")
    assert function_of("found_here:f")(7) == 7


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("not_there:f", "there is no module not_there"),
        ("not_there.at_all:f", "there is no module not_there.at_all"),
        ("some_values:missing", "the module some_values has no missing"),
        ("some_values:number", "some_values:number is no function"),
    ],
)
def test_what_is_missing_is_named(modules: Path, name: str, text: str) -> None:
    (modules / "some_values.py").write_text("number = 7\n")
    with pytest.raises(TransformError, match=text):
        function_of(name)


def test_what_a_module_itself_misses_is_told_with_its_line(modules: Path) -> None:
    (modules / "needs_more.py").write_text("x = 1\nimport never_installed\n")
    with pytest.raises(ModuleNotFoundError) as caught:
        function_of("needs_more:f")
    assert fault_of(caught.value).endswith("needs_more.py, line 2)")


def test_the_text_of_a_transform_is_its_sql_wherever_that_is(modules: Path) -> None:
    (modules / "one.sql").write_text("SELECT 1")
    assert text_of(TransformRule(sql_file=str(modules / "one.sql"))) == text_of(TransformRule(sql="SELECT 1"))
    assert text_of(TransformRule(python="m:f")) == "m:f"


class PythonException(Exception):
    """As pyspark calls it."""


def test_only_errors_in_evaluating_rows_are_held_against_a_row() -> None:
    assert is_of_the_rows(PythonException("ValueError: no number"))
    assert not is_of_the_rows(PythonException("bridgehead.errors.StaleEpochError: epoch 1 is over"))
    assert not is_of_the_rows(PythonException("pyarrow._flight.FlightUnavailableError: away"))
    assert not is_of_the_rows(ConnectionError("the JVM is gone"))
