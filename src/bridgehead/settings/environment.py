"""``${ENV:NAME}`` inside a value stands for an environment variable."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\$\{ENV:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENING = "${ENV:"


def fill_in(text: str, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its variables filled in (once: a variable's own text is taken as it is), and what was wrong."""
    faults: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if _NAME.fullmatch(name) is None:
            faults.append("${ENV:...} must hold the name of an environment variable")
        elif name not in env:
            faults.append(f"the environment variable {name} is not set")
        else:
            return env[name]
        return ""

    if _OPENING in _PLACEHOLDER.sub("", text):
        faults.append("${ENV: is never closed by a }")
    return _PLACEHOLDER.sub(value_of, text), faults
