"""XML as a plain tree: elements with their text, their children and their line. No DTD, so no entity can grow or reach out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from bridgehead.errors import CommandError

DEEPEST: Final = 64


@dataclass(slots=True)
class Element:
    """``path`` are the names from the root on; what was looked at is ``read``, so that the rest can be told."""

    name: str
    path: str
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)
    read: bool = False

    @property
    def place(self) -> str:
        """For people: the last two names tell enough, with the line."""
        return f"{'/'.join(self.path.split('/')[-2:])} (line {self.line})"

    def all(self, name: str) -> list[Element]:
        """Its children of this name, which count as read."""
        found = [child for child in self.children if child.name == name]
        for child in found:
            child.read = True
        return found

    def one(self, name: str) -> Element | None:
        """Its child of this name; where there are several, the last."""
        found = self.all(name)
        return found[-1] if found else None

    def at(self, path: str) -> Element | None:
        """What is found along ``a/b/c``."""
        here: Element | None = self
        for name in path.split("/"):
            here = here.one(name) if here is not None else None
        return here

    def skip(self) -> None:
        """Nobody need look at what is below."""
        for child in self.children:
            child.read = True
            child.skip()

    def unread(self) -> Iterator[Element]:
        """The highest elements below this one that nobody has looked at."""
        for child in self.children:
            if child.read:
                yield from child.unread()
            else:
                yield child


def parse_xml(text: bytes, name: str) -> Element:
    """The root of a document; raises CommandError where it is no XML, or has a DTD."""
    parser = expat.ParserCreate()
    open_: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        local = tag.rpartition(":")[2]
        if len(open_) >= DEEPEST:
            raise CommandError(f"{name}: nested too deeply")
        path = f"{open_[-1].path}/{local}" if len(open_) > 1 else local
        element = Element(local, path, parser.CurrentLineNumber)
        (open_[-1].children if open_ else roots).append(element)
        open_.append(element)

    def end(tag: str) -> None:
        closed = open_.pop()
        closed.text = closed.text.strip()

    def text_in(data: str) -> None:
        open_[-1].text += data

    def doctype(*given: object) -> None:
        raise CommandError(f"{name}: a DTD is not read; take the DOCTYPE out")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text_in, doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, str(error.code))
        raise CommandError(f"{name}: not valid XML: {reason} (line {error.lineno}, column {error.offset + 1})") from None
    except (ValueError, LookupError) as error:  # an encoding that expat or Python does not know
        raise CommandError(f"{name}: cannot be read: {error}") from None
    return roots[0]
