"""Whatever a file of another bridge holds, it is imported or refused in one line, and what is written can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bridgehead.commands.importing.hivemq import import_hivemq
from bridgehead.commands.importing.mosquitto import import_mosquitto
from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.writing import written
from bridgehead.commands.importing.xmltree import parse_xml
from bridgehead.errors import CommandError

T = TypeVar("T")
DATA = Path(__file__).parents[1] / "data"
XML = (DATA / "hivemq-every-option.xml").read_text()
CONF = [line for line in (DATA / "mosquitto-every-option.conf").read_text().splitlines() if line and line[0] != "#"]

ODD = ["", "0", "-1", "true", '""', "a/#", "+", "{#}", "${ENV:X}", "${ENV:", ":", "::1", "a:b:c", "$SYS/", "\\", "'", "%"]
VALUES = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r"), max_size=12),
)
NAMES = st.sampled_from([line.split()[0] for line in CONF])


def or_refused(do: Callable[[], T]) -> T | None:
    """What it makes; None if it is refused, in one line."""
    refusal = ""
    try:
        return do()
    except CommandError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
    return None


def imported(take: Callable[[Report], dict[str, Any]], source: str) -> None:
    report = Report()
    document = or_refused(lambda: take(report))
    if document is None:
        return
    text = written(document, report, Path(source), {})
    assert yaml.safe_load(text) == document
    assert report.text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(NAMES, st.lists(VALUES, min_size=1, max_size=5)), max_size=12))
def test_any_options_with_any_values(tmp_path: Path, options: list[tuple[str, list[str]]]) -> None:
    lines = ["connection x", "address h", *(f"{name} {' '.join(values)}" for name, values in options if name != "include_dir")]
    file = tmp_path / "mosquitto.conf"
    file.write_text("\n".join(lines), newline="")
    imported(lambda report: import_mosquitto(file, report), "mosquitto.conf")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(XML)), st.integers(0, 60), VALUES), min_size=1, max_size=4))
def test_a_file_that_was_cut_and_patched_anywhere(changes: list[tuple[int, int, str]]) -> None:
    text = XML
    for at, length, value in changes:
        text = text[:at] + value + text[at + length :]
    imported(lambda report: import_hivemq(text.encode(), "config.xml", report), "config.xml")


@given(st.binary(max_size=60))
@example(b'<?xml version="1.0" encoding="shift_jis"?><hivemq/>')
@example(b'<?xml version="1.0" encoding="nothing"?><hivemq/>')
@example(b'<?xml version="1.0" encoding="utf-16"?><hivemq/>')
@example(b"\xff\xfe<\x00a\x00>\x00")
def test_any_bytes_are_xml_or_are_refused(raw: bytes) -> None:
    or_refused(lambda: parse_xml(raw, "config.xml"))


def test_nothing_is_fetched_and_no_entity_grows() -> None:
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    with pytest.raises(CommandError, match="DTD"):
        parse_xml(f'<!DOCTYPE x [<!ENTITY a0 "b">{bomb}]><x>&a11;</x>'.encode(), "config.xml")
