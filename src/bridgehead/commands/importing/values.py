"""Values of another configuration as ours. A placeholder ``${ENV:NAME}`` stays as it is: it is read when the node starts."""

from __future__ import annotations

from typing import Final

from bridgehead.errors import CommandError

PLACEHOLDER: Final = "${ENV:"
YES: Final = {"true": True, "1": True, "false": False, "0": False}


def as_text(text: str, place: str) -> str:
    return text


def as_number(text: str, place: str) -> int | str:
    if PLACEHOLDER in text:
        return text
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{place}: must be a whole number") from None


def as_yes(text: str, place: str) -> bool | str:
    if PLACEHOLDER in text:
        return text
    if text.lower() not in YES:
        raise CommandError(f"{place}: must be true or false")
    return YES[text.lower()]
