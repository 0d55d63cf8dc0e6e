"""The README is true: its configuration is good, and the files and targets it names are there."""

from __future__ import annotations

import re
from pathlib import Path

from bridgehead.settings import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_configuration_it_shows_is_good() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    settings = parse(example, {"CLOUD_PASSWORD": "secret"})
    assert [route.direction for route in settings.routes()] == ["push", "pull"]


def test_every_page_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_it_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert named
    assert named <= targets
