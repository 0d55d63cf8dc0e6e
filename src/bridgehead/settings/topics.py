"""Topic filters and destinations: what a route may be given."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from bridgehead.settings.part import MqttText
from bridgehead.wire.topicnames import valid_filter

WHOLE_TOPIC = "{#}"  # a destination level that stands for the whole original topic
_TEMPLATE = re.compile(r"\{[^{}/]*\}")


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
    for level in text.split("/"):
        if WHOLE_TOPIC in level and level != WHOLE_TOPIC:
            raise ValueError("{#} must be a whole level, without other text beside it")
        if any(wildcard in _TEMPLATE.sub("", level) for wildcard in "+#"):
            raise ValueError("must not contain the wildcards '+' or '#' (only {#} as a whole level)")
    return text


def is_plain_destination(value: object) -> bool:
    """Whether a destination needs nothing but literal levels and ``{#}``."""
    if not isinstance(value, str):
        return value is None
    return not any(brace in level for level in value.split("/") if level != WHOLE_TOPIC for brace in "{}")


Filter = Annotated[MqttText, AfterValidator(_filter)]
Destination = Annotated[MqttText, AfterValidator(_destination)]
