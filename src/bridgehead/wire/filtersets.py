"""Several topic filters of one subscriber: which of them are needed, and how they are put so that none overlaps another.

A broker may send a copy for each subscription that matches. Shared filters stand apart: each gets its share of the
messages, whatever else is subscribed to.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import zip_longest
from typing import NamedTuple

from bridgehead.wire.topicnames import covers, intersect, share_of


def without_covered(filters: Iterable[str]) -> list[str]:
    """The filters without those that another one covers."""
    every = list(dict.fromkeys(filters))
    return [each for each in every if not any(_makes_needless(other, each) for other in every)]


def any_meet(filters: list[str]) -> bool:
    """Is there a topic that two of them select?"""
    return any(meet(one, other) for at, one in enumerate(filters) for other in filters[:at])


def meet(one: str, other: str) -> bool:
    """Would a message come by both?"""
    return alone(one) and alone(other) and intersect(one, other)


def alone(topic_filter: str) -> bool:
    """Nobody else gets what comes by it: it is not shared."""
    return share_of(topic_filter)[0] is None


class Overlap(NamedTuple):
    """Filters that overlap in part."""

    parts: list[str]
    wide: str  # what covers them
    joined: bool  # False: that would be everything, and nobody asked for it


def apart(filters: Iterable[str]) -> list[str]:
    """Filters that select all that these do: those that overlap are joined, so that no two select the same topic.

    Only what nothing but everything covers stays as it is, and overlaps.
    """
    return list(dict.fromkeys(each for _, kept in _groups(filters) for each in kept))


def overlaps(filters: Iterable[str]) -> list[Overlap]:
    """Which of them overlap in part, and what ``apart`` makes of it."""
    found = []
    for parts, kept in _groups(without_covered(filters)):
        if len(parts) > 1:
            meeting = [each for each in parts if any(meet(each, other) for other in parts if other != each)]
            wide = reduce(join, parts)
            found.append(Overlap(meeting, wide, joined=kept == [wide]))
    return found


def join(one: str, other: str) -> str:
    """The narrowest filter that covers both: of the server's own topics ($...), or of others."""
    levels: list[str] = []
    for left, right in zip_longest(one.split("/"), other.split("/")):
        if "#" in (left, right) or None in (left, right):  # a/# selects a too
            levels.append("#")
            break
        levels.append(left if left == right else "+")
    return "/".join(levels)


def is_everything(topic_filter: str) -> bool:
    """Does it select every topic, from some depth on?"""
    *above, last = topic_filter.split("/")
    return last == "#" and all(level == "+" for level in above)


def _groups(filters: Iterable[str]) -> list[tuple[list[str], list[str]]]:
    """Filters of which none overlaps one of another group, and what to subscribe to for each group."""
    groups: list[tuple[list[str], list[str]]] = []
    for each in filters:
        parts, kept, place = [each], [each], len(groups)
        while (at := next((at for at, (_, other) in enumerate(groups) if _any_of_both_meet(other, kept)), None)) is not None:
            parts, place = [*groups.pop(at)[0], *parts], min(place, at)
            kept = _kept(parts)
        groups.insert(place, (parts, kept))
    return groups


def _kept(parts: list[str]) -> list[str]:
    wide = reduce(join, parts)
    if is_everything(wide) and not any(is_everything(each) for each in parts):
        return without_covered(parts)
    return [wide]


def _any_of_both_meet(some: list[str], others: list[str]) -> bool:
    return any(meet(one, other) for one in some for other in others)


def _makes_needless(wide: str, narrow: str) -> bool:
    return wide != narrow and alone(wide) and alone(narrow) and covers(wide, narrow)
