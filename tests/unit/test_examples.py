"""The examples: their files are good, and what they bring along of their own does what it says."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.settings.load import load
from making.sparkplug import payload

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["alert", "device-table", "downsample", "json-to-columns", "report-by-exception", "sparkplug"]


@pytest.fixture(scope="module")
def sparkplug() -> Iterator[Any]:
    sys.path.append(str(EXAMPLES / "sparkplug"))
    yield importlib.import_module("sparkplug_payload")
    sys.path.remove(str(EXAMPLES / "sparkplug"))


def test_every_folder_is_an_example_with_a_text_and_is_in_the_list() -> None:
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/node.yaml")) == NAMES
    text = (EXAMPLES / "README.md").read_text()
    for name in NAMES:
        assert (EXAMPLES / name / "README.md").exists()
        assert f"[{name}]({name}/README.md)" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_an_example_are_good(name: str) -> None:
    settings = load(EXAMPLES / name / "node.yaml", {})
    assert any(route.transform is not None for route in settings.routes())
    assert settings.data_dir == Path.cwd() / "bridgehead-data" / name


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"int_value": 7, "datatype": 7}, 7),
        ({"int_value": 2**32 - 5, "datatype": 3}, -5),
        ({"int_value": 2**32 - 5, "datatype": 1}, -5),
        ({"int_value": 251, "datatype": 1}, -5),
        ({"long_value": 2**64 - 1, "datatype": 4}, -1),
        ({"long_value": 2**64 - 1, "datatype": 8}, 2**64 - 1),
        ({"float_value": 0.5, "datatype": 9}, 0.5),
        ({"double_value": 0.1, "datatype": 10}, 0.1),
        ({"boolean_value": True, "datatype": 11}, True),
        ({"string_value": "grün", "datatype": 12}, "grün"),
        ({"bytes_value": b"\0\1", "datatype": 17}, b"\0\1"),
        ({"is_null": True, "datatype": 3}, None),
    ],
)
def test_a_metric_is_read_as_protobuf_wrote_it(sparkplug: Any, given: dict[str, Any], value: object) -> None:
    metric = {"name": "m", "alias": 2**40, "timestamp": 5, "is_historical": True, "metadata": b"\x12\x00", **given}
    [read] = sparkplug.metrics_in(payload([metric], timestamp=9, seq=1, uuid="u", body=b"b"))
    assert (read.name, read.alias, read.at) == ("m", 2**40, 5)
    assert sparkplug.signed(read.value, read.datatype) == value
    assert type(sparkplug.signed(read.value, read.datatype)) is type(value)


def test_a_metric_without_a_time_has_that_of_its_payload(sparkplug: Any) -> None:
    [read] = sparkplug.metrics_in(payload([{"alias": 1, "int_value": 1}], timestamp=9))
    assert (read.name, read.alias, read.at, read.datatype) == (None, 1, 9, None)


@given(data=st.binary(max_size=60))
def test_bytes_of_any_kind_are_metrics_or_a_value_error_and_nothing_worse(sparkplug: Any, data: bytes) -> None:
    with suppress(ValueError):
        assert all(isinstance(each, sparkplug.Metric) for each in sparkplug.metrics_in(data))


def test_a_payload_that_is_cut_in_a_metric_is_refused(sparkplug: Any) -> None:
    whole = payload([{"name": "pressure", "double_value": 1.5}])
    for end in range(1, len(whole)):
        with pytest.raises(ValueError, match=r"the middle of a field|does not end"):
            list(sparkplug.metrics_in(whole[:end]))
