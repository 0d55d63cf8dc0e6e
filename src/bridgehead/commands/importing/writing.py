"""Our YAML of an imported configuration, with what its reader should know on top, held against our own rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from bridgehead.commands.importing.report import Report
from bridgehead.errors import CommandError, SettingsError
from bridgehead.settings.load import parse

_VARIABLE: Final = re.compile(r"\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")
STANDS_IN: Final = "1"
"""The value of a variable that is not set where the file is imported: good as text, as a number and as a yes."""


def written(document: dict[str, Any], report: Report, source: Path, env: Mapping[str, str]) -> str:
    """The text of our file. What our rules refuse in it is added to the report first."""
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    variables = {name: env.get(name, STANDS_IN) for name in _VARIABLE.findall(body)}
    try:
        parse(body, variables)
    except SettingsError as error:
        report.not_yet += [f"{_without_line(place)}: {text}" for place, text in error.faults]
    notes = f"Imported from {source.name}.\n\n{report.text(all_of_it=False)}".rstrip()
    comments = "".join(f"# {line}".rstrip() + "\n" for line in notes.splitlines())
    return f"{comments}\n{body}"


def _without_line(place: str) -> str:
    """The comments on top will move every line."""
    return re.sub(r" \(line \d+\)$", "", place)


def save(text: str, to: Path) -> None:
    """A new file that only its owner can read: there may be passwords in it. One that is there stays as it is."""
    try:
        to.touch(mode=0o600, exist_ok=False)
        to.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise CommandError(f"{to} is there already") from None
    except OSError as error:
        raise CommandError(f"{to} cannot be written: {error.strerror or error}") from error


def read(path: Path, most: int = 4 * 2**20) -> bytes:
    """What a file of theirs holds; one line where it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(raw) > most:
        raise CommandError(f"{path} is larger than {most} bytes")
    return raw
