"""The reference page knows every key, and says of each that is still to come that it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehead.settings.load import known_keys
from bridgehead.settings.notyet import NOT_YET

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text()


@pytest.mark.parametrize("key", sorted(known_keys()))
def test_the_page_knows_every_key(key: str) -> None:
    assert re.search(rf"[`.]{key}[`.]", PAGE)


@pytest.mark.parametrize("pattern", sorted(NOT_YET))
def test_the_page_says_what_is_still_to_come(pattern: str) -> None:
    key = pattern.rsplit(".", 1)[-1]
    rows = [line for line in PAGE.splitlines() if line.startswith((f"| `{key}` |", f"| `{pattern}` |"))]
    assert any("**Not yet**" in row for row in rows)
