"""What became of each option of a file that was imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TITLES: Final = {
    "maps": "the same here",
    "differs": "differs here: look at these",
    "missing": "does not exist here",
    "not_yet": "written, and refused by `bridgehead check` so far",
}

NOBODY_ELSE: Final = (
    "who may connect is not asked yet: only this machine may, until you give the listener a host and say auth.allowAnonymous"
)


@dataclass(slots=True)
class Report:
    """Lines for people, by what became of an option; ``place`` is where it stands in the file that was read."""

    maps: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    not_yet: list[str] = field(default_factory=list)

    def map(self, place: str, key: str) -> None:
        self.maps.append(f"{place} -> {key}")

    def differ(self, place: str, text: str) -> None:
        self.differs.append(f"{place}: {text}")

    def miss(self, place: str, text: str) -> None:
        self.missing.append(f"{place}: {text}")

    def text(self, *, all_of_it: bool = True) -> str:
        """Everything; or only what needs a second look, for the top of the file."""
        parts = []
        for kind, title in TITLES.items():
            lines: list[str] = list(dict.fromkeys(getattr(self, kind)))
            if lines and (all_of_it or kind != "maps"):
                parts.append("\n".join([f"{title} ({len(lines)}):", *(f"  {_printable(line)}" for line in lines)]))
        return "\n\n".join(parts)


def _printable(line: str) -> str:
    """Values of a foreign file, harmless on a terminal and in a comment."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)
