"""Single values of an XML element under our keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.values import as_text
from bridgehead.commands.importing.xmltree import Element


class Taking:
    """Moves single values from an element to our keys, and tells the report."""

    def __init__(self, element: Element, into: dict[str, Any], key: str, report: Report) -> None:
        self._element, self._into, self._key, self._report = element, into, key, report

    def __call__(self, path: str, key: str, convert: Callable[[str, str], Any] = as_text) -> Any:
        found = self._element.at(path)
        if found is None or found.text == "":
            return None
        value = self._into[key] = convert(found.text, found.place)
        self._report.map(found.place, f"{self._key}.{key}")
        return value
