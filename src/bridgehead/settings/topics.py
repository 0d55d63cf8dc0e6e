"""Topic filters and destinations: what a route may be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator

from bridgehead.settings.part import MqttText
from bridgehead.wire.topicnames import valid_filter
from bridgehead.wire.topictemplate import read_template


class _Anything(Mapping[str, str]):
    """Names and variables have values; which ones is known when everything has been read."""

    def __getitem__(self, name: str) -> str:
        return "value"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANYTHING = _Anything()


def _filter(text: str) -> str:
    if not valid_filter(text):
        raise ValueError(
            "is not a valid topic filter: it must not be empty, '#' must be the whole last level, '+' a whole level, "
            "and a shared one must be $share/<name>/<filter>"
        )
    return text


def _destination(text: str) -> str:
    if not text:
        raise ValueError("must not be empty; null keeps the topic")
    read_template(text, _ANYTHING, _ANYTHING)
    return text


def rewrite_fault(pattern: str, replacement: str) -> str | None:
    """Why a rewrite cannot work; the library that will do it is asked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.replace_substring_regex(pa.array(["topic"]), pattern=pattern, replacement=replacement)
    except pa.ArrowInvalid as error:
        return f"no regular expression (RE2) with a replacement for it: {str(error).split(': ')[1]}"
    except UnicodeEncodeError:
        return "must be valid Unicode text"
    return None


Filter = Annotated[MqttText, AfterValidator(_filter)]
Destination = Annotated[MqttText, AfterValidator(_destination)]
