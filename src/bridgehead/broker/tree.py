"""The topic tree: which subscriptions match a topic. Asked once per distinct topic; the answer is cached by plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Level(Generic[T]):
    children: dict[str, _Level[T]] = field(default_factory=dict)
    entries: dict[str, T] = field(default_factory=dict)  # subscribers to exactly this filter, by their name


class TopicTree(Generic[T]):
    """Filters with entries by name; one name has one entry per filter."""

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()

    def put(self, topic_filter: str, name: str, entry: T) -> bool:
        """Add or replace; True if it was not there before."""
        level = self._root
        for part in topic_filter.split("/"):
            level = level.children.setdefault(part, _Level())
        new = name not in level.entries
        level.entries[name] = entry
        return new

    def remove(self, topic_filter: str, name: str) -> bool:
        path: list[tuple[_Level[T], str]] = []
        level = self._root
        for part in topic_filter.split("/"):
            if part not in level.children:
                return False
            path.append((level, part))
            level = level.children[part]
        found = level.entries.pop(name, None) is not None
        for parent, part in reversed(path):
            child = parent.children[part]
            if child.children or child.entries:
                break
            del parent.children[part]
        return found

    def match(self, topic: str) -> Iterator[tuple[str, T]]:
        """Every (name, entry) whose filter matches; a name may come more than once."""
        parts = topic.split("/")
        levels = [self._root]
        for depth, part in enumerate(parts):
            wild = depth > 0 or not topic.startswith("$")  # [MQTT-4.7.2-1]
            following: list[_Level[T]] = []
            for level in levels:
                if wild and "#" in level.children:
                    yield from level.children["#"].entries.items()
                if wild and "+" in level.children:
                    following.append(level.children["+"])
                if part in level.children:
                    following.append(level.children[part])
            levels = following
        for level in levels:
            yield from level.entries.items()
            if "#" in level.children:  # "a/#" also matches "a"
                yield from level.children["#"].entries.items()
