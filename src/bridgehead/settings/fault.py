"""A fault in the configuration: where, and what is wrong. Values never appear in the text: they may be secrets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]  # keys and positions from the root, as in ("bridges", 0, "port")

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NO_DEFAULT = "default_factory_not_called"  # pydantic could not make a default because of another fault: nothing new


class Fault(NamedTuple):
    """One thing that is wrong."""

    path: Path
    text: str


def path_text(path: Path) -> str:
    """``bridges[0].localSubscriptions[1].filters[0]``"""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def located(path: Path, lines: Mapping[Path, int]) -> tuple[str, int]:
    """The path as text with the line in the file, and that line; a missing key has the line of what misses it."""
    known = path
    while known and known not in lines:
        known = known[:-1]
    line = lines.get(known, 0)
    text = path_text(path)
    if line:
        text = f"{text} (line {line})" if text else f"line {line}"
    return text, line


def faults_of_model(errors: list[ErrorDetails], known_keys: Collection[str]) -> list[Fault]:
    """Pydantic's errors in our words."""
    places = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}  # with a fault inside
    return [
        Fault(tuple(step for step in error["loc"] if step != "[key]"), _text(error, known_keys))
        for error in errors
        if error["type"] != _NO_DEFAULT and not (error["type"] == "too_short" and error["loc"] in places)
    ]


def _text(error: ErrorDetails, known_keys: Collection[str]) -> str:
    match error["type"]:
        case "missing":
            return "required, but missing"
        case "extra_forbidden":
            return _unknown(str(error["loc"][-1]), known_keys)
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "string_type":
            return "must be text; put it in quotes"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be a mapping of keys to values"
        case "too_short":
            return "must have at least one entry"
        case "too_long":
            return f"must have at most {error['ctx']['max_length']} entries"
        case "tuple_type" | "list_type":
            return "must be a list"
        case _:
            return error["msg"].replace("Input should", "must").replace("String should", "must").replace("Value", "it")


def _unknown(key: str, known_keys: Collection[str]) -> str:
    if key in known_keys:
        return "unknown key here; it belongs to another part"
    near = difflib.get_close_matches(key, known_keys, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else "unknown key"
