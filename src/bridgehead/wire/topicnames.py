"""Topic names and topic filters: which are valid, and which filter selects which name.

A filter may be shared: ``$share/<group>/<filter>`` (also from 3.1.1 clients, as every broker around takes it).
"""

from __future__ import annotations

from itertools import zip_longest

_SHARE = "$share/"
_LONGEST = 65_535
"""Bytes in UTF-8: the length field of a string has two bytes [MQTT-4.7.3-3]."""


def valid_topic(name: str) -> bool:
    """May a message be published to ``name``? [MQTT-3.3.2-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2]"""
    return bool(name) and not ("#" in name or "+" in name or "\0" in name) and _fits(name)


def valid_filter(topic_filter: str) -> bool:
    """May a client subscribe to ``topic_filter``? [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.8.2-1] [MQTT-4.8.2-2]"""
    if not _fits(topic_filter):
        return False
    if topic_filter.startswith(_SHARE):
        group, slash, topic_filter = topic_filter[len(_SHARE) :].partition("/")
        if not group or not slash or "#" in group or "+" in group or "\0" in group:
            return False
    if not topic_filter or "\0" in topic_filter:
        return False
    if "#" not in topic_filter and "+" not in topic_filter:
        return True
    *above, last = topic_filter.split("/")
    return all("#" not in level and _plus_stands_alone(level) for level in above) and (
        last == "#" or ("#" not in last and _plus_stands_alone(last))
    )


def share_of(topic_filter: str) -> tuple[str | None, str]:
    """The group of a valid filter (None if it is not shared) and the filter that selects the topics."""
    if not topic_filter.startswith(_SHARE):
        return None, topic_filter
    group, _, selects = topic_filter[len(_SHARE) :].partition("/")
    return group, selects


def matches(topic_filter: str, topic: str) -> bool:
    """Does a valid filter (a shared one by the part that selects) select ``topic``?"""
    _, selects = share_of(topic_filter)
    if selects == topic:
        return True
    if topic.startswith("$") and selects.startswith(("#", "+")):
        return False  # [MQTT-4.7.2-1] a wildcard at the root leaves the server's own topics out
    wanted = selects.split("/")
    levels = topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):  # "a/#" selects "a" too: the parent counts
            return False
        levels = levels[: len(wanted)]
    elif len(levels) != len(wanted):
        return False
    return all(want in ("+", level) for want, level in zip(wanted, levels, strict=True))


def covers(wide: str, narrow: str) -> bool:
    """Does ``wide`` select every topic that ``narrow`` selects? A no may be a perhaps: ``+/#`` is not held to cover ``#``."""
    if _root_wildcard_against_server_topics(wide, narrow):
        return False
    levels = narrow.split("/")
    for depth, want in enumerate(wide.split("/")):
        if want == "#":
            return True
        if depth == len(levels) or levels[depth] == "#" or want not in ("+", levels[depth]):
            return False
    return len(wide.split("/")) == len(levels)


def intersect(one: str, other: str) -> bool:
    """Is there a topic that both filters select?"""
    if _root_wildcard_against_server_topics(one, other) or _root_wildcard_against_server_topics(other, one):
        return False
    mine, theirs = one.split("/"), other.split("/")
    for left, right in zip_longest(mine, theirs):
        if "#" in (left, right):
            return True
        if left is None or right is None or ("+" not in (left, right) and left != right):
            return False
    return True


def _root_wildcard_against_server_topics(one: str, other: str) -> bool:
    return one.startswith(("#", "+")) and other.startswith("$")  # [MQTT-4.7.2-1]


def _plus_stands_alone(level: str) -> bool:
    return "+" not in level or level == "+"


def _fits(text: str) -> bool:
    if len(text) <= _LONGEST // 4:  # no character takes more than four bytes
        return True
    return len(text.encode("utf-8", "surrogatepass")) <= _LONGEST
