"""Several topic filters of one subscriber: which of them are needed, and how they are put so that none overlaps another.

A broker may send a copy for each subscription that matches. Shared filters stand apart: each gets its share of the
messages, whatever else is subscribed to.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

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


def apart(filters: Iterable[str]) -> list[str]:
    """Filters that select all that these do, no two of them the same topic: those that overlap are joined into one."""
    found: list[str] = []
    for each in filters:
        wide, place = each, len(found)
        while (at := next((at for at, other in enumerate(found) if meet(other, wide)), None)) is not None:
            wide, place = join(found.pop(at), wide), min(place, at)
        found.insert(place, wide)
    return list(dict.fromkeys(found))


def join(one: str, other: str) -> str:
    """The narrowest filter that covers both of two filters that meet.

    Only such are joined: of the same depth but for ``#``, and either both among the server's own topics ($) or neither.
    """
    levels: list[str] = []
    for left, right in zip_longest(one.split("/"), other.split("/")):
        if "#" in (left, right):
            levels.append("#")
            break
        levels.append(left if left == right else "+")
    return "/".join(levels)


def joins(filters: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Of ``apart`` the filters that nobody has given, each with those that overlap and made it necessary."""
    given = without_covered(filters)
    overlap = [each for each in given if any(meet(each, other) for other in given if other != each)]
    return [(wide, [each for each in overlap if covers(wide, each)]) for wide in apart(given) if wide not in given]


def is_everything(topic_filter: str) -> bool:
    """Does it select every topic, from some depth on?"""
    *above, last = topic_filter.split("/")
    return last == "#" and all(level == "+" for level in above)


def too_wide(filters: Iterable[str]) -> tuple[str, list[str]] | None:
    """Filters that overlap and have no level in common, nor a depth, with what alone covers them: everything."""
    for wide, parts in joins(filters):
        if is_everything(wide) and not any(is_everything(each) for each in parts):
            return wide, parts
    return None


def _makes_needless(wide: str, narrow: str) -> bool:
    return wide != narrow and alone(wide) and alone(narrow) and covers(wide, narrow)
