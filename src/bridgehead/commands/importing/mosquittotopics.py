"""``topic`` lines of mosquitto as routes.

    topic pattern [[[out | in | both] qos] local-prefix remote-prefix]

A prefix is put before the pattern as it is, taken away from the topic of a message, and the other one put in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.commands.importing.mosquittoconf import Option
from bridgehead.errors import CommandError

DIRECTIONS: Final = {"out": ("out",), "in": ("in",), "both": ("out", "in")}
EMPTY: Final = '""'


@dataclass(frozen=True, slots=True)
class Topic:
    """One line, in one direction: from the side where messages are published to the other one."""

    direction: str  # out, in
    pattern: str  # "" stands for the prefixes alone
    qos: int
    source: str  # the prefix where messages come from
    target: str

    @property
    def filter(self) -> str:
        return self.source + self.pattern


def topics_of(option: Option) -> Iterator[Topic]:
    """One for each direction that a line has."""
    words = ["" if word == EMPTY else word for word in option.value.split()]
    if len(words) > 5:
        raise CommandError(f"{option.place}: more than a pattern, a direction, a QoS and two prefixes")
    pattern, direction, qos, local, remote = (*words, *("", "out", "0", "", "")[len(words) :])
    if direction not in DIRECTIONS:
        raise CommandError(f"{option.place}: the direction must be out, in or both")
    if qos not in ("0", "1", "2"):
        raise CommandError(f"{option.place}: the QoS must be 0, 1 or 2")
    if not pattern and not (local and remote):
        raise CommandError(f"{option.place}: without a pattern both prefixes are needed")
    for way in DIRECTIONS[direction]:
        source, target = (local, remote) if way == "out" else (remote, local)
        yield Topic(way, pattern, int(qos), source, target)


def routes(topics: Iterable[Topic]) -> list[dict[str, Any]]:
    """Lines that differ only in their pattern are one route: one queue, in which order is kept."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for topic in topics:
        alike = (topic.qos, topic.source, topic.target, bool(topic.pattern))
        rule = found.setdefault(alike, {"filters": [], **mapping(topic), "maxQoS": topic.qos})
        if topic.filter not in rule["filters"]:
            rule["filters"].append(topic.filter)
    return list(found.values())


def mapping(topic: Topic) -> dict[str, Any]:
    """How the topic of a message becomes that of the other side: by levels where prefixes end with one, else by a pattern."""
    source, target = topic.source, topic.target
    if source == target:
        return {}
    if any(sign in target for sign in "{}$\\") or not _whole_levels(source, target, single=not topic.pattern):
        return {"rewrite": [_rewrite(source, target, single=not topic.pattern)]}
    if not topic.pattern:
        return {"destination": target}
    return {"destination": f"{target}{{{source.count('/') + 1}-#}}" if source else f"{target}{{#}}"}


def _whole_levels(source: str, target: str, *, single: bool) -> bool:
    return single or all(prefix == "" or prefix.endswith("/") for prefix in (source, target))


def _rewrite(source: str, target: str, *, single: bool) -> dict[str, str]:
    to = target.replace("\\", "\\\\")
    if single:
        return {"pattern": f"^{re.escape(source)}$", "replacement": to}
    return {"pattern": f"^{re.escape(source)}(.*)$", "replacement": f"{to}\\1"}
