"""What the configuration can already say and the node cannot yet do.

Every key of the contract is known from the start. One whose feature is still to come is refused unless it says what
happens anyway, so that nothing is ever ignored in silence. When a feature arrives, its line goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from bridgehead.settings.fault import Fault, Path
from bridgehead.settings.sizes import parse_size


class Accepted(NamedTuple):
    """What a key may say for now."""

    is_accepted: Callable[[Any], bool]
    text: str


def _same(value: object, accepted: object) -> bool:
    """Equal as settings: an environment variable can say ``"true"``, a size may be ``256MiB`` or its number."""
    try:
        if isinstance(accepted, bool):
            return TypeAdapter(bool).validate_python(value) is accepted
        if isinstance(accepted, int):
            return parse_size(value) == accepted
    except (ValidationError, ValueError):
        return False
    return value == accepted


def _yaml(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def only(*values: object) -> Accepted:
    """The given values, however they are written."""
    return Accepted(lambda value: any(_same(value, each) for each in values), " or ".join(map(_yaml, values)))


NOT_YET: dict[str, Accepted] = {
    "listeners[*].type": only("tcp"),
    "auth.allowAnonymous": only(True),
    "auth.users": only([]),
    "auth.permissions": only([]),
}


def faults_not_yet(document: object) -> Iterator[Fault]:
    """Everything the document asks for that is still to come."""
    for pattern, accepted in NOT_YET.items():
        for path, value in _find(document, tuple(pattern.replace("[*]", ".[*]").split(".")), ()):
            if not accepted.is_accepted(value):
                yield Fault(path, f"not supported yet; for now only {accepted.text}")


def _find(value: object, steps: tuple[str, ...], path: Path) -> Iterator[tuple[Path, object]]:
    """Every place of the document that a pattern names."""
    if not steps:
        yield path, value
    elif steps[0] == "[*]":
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from _find(each, steps[1:], (*path, index))
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(key, str) and fnmatchcase(key, steps[0]):
                yield from _find(each, steps[1:], (*path, key))
