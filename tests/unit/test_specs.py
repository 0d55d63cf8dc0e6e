"""The pages of docs/specs are held to their word: every statement has its tests, and every test they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "specs").glob("*.md"))
STATEMENT = re.compile(r"^- \*\*(?P<id>[A-Z]-(?P<number>\d+)) (?:MUST|SHOULD)\*\* (?P<text>.*?)(?=^- |^#|^$)", re.M | re.S)
NAME = re.compile(r"`(test_\w+|Test\w+)`")

pytestmark = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@cache
def known() -> frozenset[str]:
    """Every test function, and every state machine that runs as a test."""
    names: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


def statements(page: Path) -> list[re.Match[str]]:
    found = list(STATEMENT.finditer(page.read_text()))
    assert len(found) == len(re.findall(r"^- \*\*[A-Z]-", page.read_text(), re.M)), "a statement that cannot be read"
    assert found
    return found


def test_numbers_rise_and_none_is_given_twice(page: Path) -> None:
    numbers = [int(each["number"]) for each in statements(page)]
    assert numbers == sorted(set(numbers))


def test_no_statement_is_without_a_test(page: Path) -> None:
    assert [each["id"] for each in statements(page) if not NAME.search(each["text"])] == []


def test_every_test_that_is_named_exists(page: Path) -> None:
    assert [name for name in NAME.findall(page.read_text()) if name not in known()] == []


def test_every_page_it_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
