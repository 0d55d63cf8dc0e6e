"""Destination templates: how the topic of a message is made from the topic it came with.

A template is read level by level. In a level stand text and placeholders:

    {#}            the whole topic                     {2-#}   its levels from the second on
    {2}            its second level                    {2-3}   its second and third level
    {+1}           what the first + of the filter that matched stands for
    {+#}           what the # of that filter stands for
    ${client.id}   the client that published the message
    ${bridge.name}, ${node}, $ENV{NAME}                known before the first message
    \\{             a brace that is only a brace

A level with a placeholder that has nothing to stand for is left out: it leaves no empty level behind. Placeholders for several
levels stand alone in theirs: text beside them is left out. What can never work is refused when the template is read, with a
reason for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from bridgehead.wire.topicnames import matches, share_of

BRIDGE_NAME: Final = "bridge.name"
NODE: Final = "node"
CLIENT_ID: Final = "client.id"

_TOKEN: Final = re.compile(r"(?P<brace>\\\{)|\$ENV\{(?P<variable>[^}]*)\}|\$\{(?P<name>[^}]*)\}|\{(?P<levels>[^}]*)\}")
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})(?:(-)(?:([1-9][0-9]{0,8})|#))?")
_NOT_IN_A_LEVEL: Final = re.compile(r"[/+#]")
_CAPTURE: Final = re.compile(r"\+([1-9][0-9]{0,8}|#)")


class Levels(NamedTuple):
    """Levels of the topic, counted from 1; ``last`` is None for all that follow."""

    first: int
    last: int | None

    def of(self, topic: Sequence[str]) -> str | None:
        """None if the topic has none of them."""
        found = topic[self.first - 1 : self.last]
        return "/".join(found) if found else None

    def __str__(self) -> str:
        if self == WHOLE_TOPIC:
            return "{#}"
        return f"{{{self.first}}}" if self.last == self.first else f"{{{self.first}-{self.last or '#'}}}"


class Capture(NamedTuple):
    """What a wildcard of the filter stands for: its n-th ``+``, or with None its ``#``."""

    plus: int | None

    def levels(self, topic_filter: str) -> Levels | None:
        """The same, by the numbers that a topic's levels have if this filter selects it; None if it has no such wildcard."""
        wanted = share_of(topic_filter)[1].split("/")
        if self.plus is None:
            return Levels(len(wanted), None) if wanted[-1] == "#" else None
        at = [number for number, level in enumerate(wanted, 1) if level == "+"]
        return Levels(at[self.plus - 1], at[self.plus - 1]) if self.plus <= len(at) else None

    def __str__(self) -> str:
        return f"{{+{self.plus or '#'}}}"


@dataclass(frozen=True, slots=True)
class Client:
    """The client that published: one level, whatever its id. One that would make more of itself comes to no topic."""

    def __str__(self) -> str:
        return f"${{{CLIENT_ID}}}"


WHOLE_TOPIC: Final = Levels(1, None)
Piece: TypeAlias = str | Levels | Capture | Client
Level: TypeAlias = tuple[Piece, ...]


class Missing(NamedTuple):
    """A name without a value, whose level is left out: worth a word to whoever wrote it."""

    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """A destination as read: what is known before the first message is filled in."""

    levels: tuple[Level, ...]
    missing: tuple[str, ...] = ()  # names that have no value, as they were written
    left_out: tuple[str, ...] = ()  # text beside a placeholder that stands alone in its level

    @property
    def captures(self) -> set[Capture]:
        return {piece for level in self.levels for piece in level if isinstance(piece, Capture)}

    @property
    def asks_for_client(self) -> bool:
        return any(isinstance(piece, Client) for level in self.levels for piece in level)

    @property
    def parts(self) -> list[str | None] | None:
        """Text, and None for the whole topic, where there is nothing else in the template."""
        found: list[str | None] = [""]
        for number, level in enumerate(self.levels):
            for piece in ("/" if number else "", *level):
                if piece == WHOLE_TOPIC:
                    found += [None, ""]
                elif isinstance(piece, str):
                    found[-1] = f"{found[-1]}{piece}"
                else:
                    return None
        return found

    @property
    def reach(self) -> str:
        """A filter that selects every topic that may come out."""
        text = ["".join(str(piece) for piece in level) for level in takewhile(_is_text, self.levels)]
        return "/".join(text if len(text) == len(self.levels) else [*text, "#"])

    def __str__(self) -> str:
        """Text that is read as the same template, whatever the names and variables are then."""
        return "/".join("".join(_written(piece) for piece in level) for level in self.levels)

    def bound(self, topic_filter: str) -> Template:
        """The template for topics that this filter selects: its wildcards are levels there."""
        return Template(tuple(_bound(self.levels, topic_filter)), self.missing, self.left_out)

    def topic(self, topic: str, client: str = "") -> str:
        """The topic that becomes of this one; empty if nothing is left."""
        if self.asks_for_client and _NOT_IN_A_LEVEL.search(client):
            return ""
        given = topic.split("/")
        levels = (_filled(level, given, client) for level in self.levels)
        return "/".join(level for level in levels if level is not None)


class Destination:
    """A template for the topics that the filters of a route select."""

    def __init__(self, template: Template, filters: Sequence[str]) -> None:
        self._template = template.bound("") if template.captures else template  # for topics that no filter selects
        self._bound = [(each, template.bound(each)) for each in filters] if template.captures else []
        self.asks_for_client = template.asks_for_client

    def topic(self, topic: str, client: str = "") -> str:
        """Wildcards are those of the first filter that selects the topic."""
        for topic_filter, template in self._bound:
            if matches(topic_filter, topic):
                return template.topic(topic, client)
        return self._template.topic(topic, client)


def read_template(text: str, names: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None) -> Template:
    """The template in a text; ValueError with what is wrong with it."""
    levels: list[Level] = []
    missing: list[str] = []
    for text_of_level in text.split("/"):
        pieces: list[Piece] = []
        for piece in _pieces(text_of_level, names or {}, variables or {}):
            if isinstance(piece, Missing):
                missing.append(piece.name)
                break
            pieces.append(piece)
        else:
            levels += _split(pieces)
    left_out: list[str] = []
    template = Template(tuple(_alone(level, left_out) for level in levels), tuple(missing), tuple(left_out))
    if all(level and all(_is_never(piece) for piece in level) for level in template.levels):
        raise ValueError("comes to no topic: every level of it is left out")
    return template


def _pieces(level: str, names: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[Piece | Missing]:
    at = 0
    text = ""
    for token in _TOKEN.finditer(level):
        text += _checked(level[at : token.start()])
        at = token.end()
        if token["brace"]:
            text += "{"
            continue
        if token["levels"] is None and token["name"] != CLIENT_ID:
            value = names.get(token["name"]) if token["variable"] is None else variables.get(token["variable"])
            if not value:
                yield Missing(token[0])
                return
            text += _checked(value, token[0])
            continue
        if text:
            yield text
            text = ""
        yield Client() if token["levels"] is None else _placeholder(token["levels"])
    text += _checked(level[at:])
    if text:
        yield text


def _split(pieces: Sequence[Piece]) -> list[Level]:
    """A name may stand for several levels."""
    levels: list[list[Piece]] = [[]]
    for piece in pieces:
        first, *more = piece.split("/") if isinstance(piece, str) else [piece]
        if first:
            levels[-1].append(first)
        levels += [[each] if each else [] for each in more]
    return [tuple(level) for level in levels]


def _placeholder(inner: str) -> Piece:
    if inner == "#":
        return WHOLE_TOPIC
    capture = _CAPTURE.fullmatch(inner)
    if capture is not None:
        return Capture(None if capture[1] == "#" else int(capture[1]))
    span = _SPAN.fullmatch(inner)
    if span is None:
        raise ValueError(
            "has a placeholder that is none of {#}, {n}, {n-m}, {n-#}, {+n} and {+#} with numbers from 1 on; "
            "\\{ stands for a brace"
        )
    first = int(span[1])
    if span[2] is None:
        return Levels(first, first)
    return Levels(first, int(span[3]) if span[3] else None)


def _checked(text: str, name: str | None = None) -> str:
    """Text that may stand in a topic."""
    if name is None and "{" in text:
        raise ValueError("a { is never closed by a } in its level; \\{ stands for a brace")
    if "+" in text or "#" in text:
        where = f": {name} does" if name else " outside of a placeholder"
        raise ValueError(f"must not contain the wildcards '+' or '#'{where}")
    if "\0" in text or not _is_unicode(text):
        raise ValueError(f"must be Unicode text without NUL{f': {name} is not' if name else ''}")
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _is_text(level: Level) -> bool:
    return all(isinstance(piece, str) for piece in level)


def _alone(level: Level, left_out: list[str]) -> Level:
    """A placeholder for several levels takes the whole of its own: text beside it is left out."""
    alone = [piece for piece in level if _stands_alone(piece)]
    if not alone or len(level) == 1:
        return level
    if sum(not isinstance(piece, str) for piece in level) > 1:
        raise ValueError(f"{alone[0]} must be the only placeholder of its level")
    left_out += [f"{piece!r} beside {alone[0]}" for piece in level if isinstance(piece, str)]
    return (alone[0],)


def _stands_alone(piece: Piece) -> bool:
    if isinstance(piece, Capture):
        return piece.plus is None
    return isinstance(piece, Levels) and piece.first != piece.last


def _is_never(piece: Piece) -> bool:
    return isinstance(piece, Levels) and piece.last is not None and piece.last < piece.first


def _filled(level: Level, topic: Sequence[str], client: str) -> str | None:
    text = ""
    for piece in level:
        found: str | None
        if isinstance(piece, Client):
            found = client or None
        else:
            found = piece if isinstance(piece, str) else piece.of(topic) if isinstance(piece, Levels) else None
        if found is None:
            return None
        text += found
    return text


def _bound(levels: Sequence[Level], topic_filter: str) -> Iterator[Level]:
    for level in levels:
        pieces = [piece.levels(topic_filter) if isinstance(piece, Capture) else piece for piece in level]
        if None not in pieces:
            yield tuple(piece for piece in pieces if piece is not None)


def _written(piece: Piece) -> str:
    return piece.replace("{", "\\{") if isinstance(piece, str) else str(piece)
