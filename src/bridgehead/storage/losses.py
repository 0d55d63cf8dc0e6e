"""What damage has cost: rows whose number is known, and places of which nobody can say what was there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.storage.engine import Shelf

LOSSES: Final = "losses"
"""The state under (LOSSES, *shelf) is what this shelf has lost in all its lives; under (LOSSES,) what belongs to no shelf."""
SET_ASIDE: Final[Shelf] = ("setAside",)
"""The state that names the directories which were set aside, the newest last."""
KEPT_NAMES: Final = 10


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows of a shelf from a number on. ``rows`` is None where their number is not known, ``shelf`` () where that is not."""

    shelf: Shelf
    first: int
    rows: int | None
    why: str

    def __str__(self) -> str:
        where = f"{'/'.join(self.shelf)} from {self.first} on" if self.shelf else "somewhere in the store"
        return f"{'an unknown number of' if self.rows is None else self.rows} rows of {where} ({self.why})"

    def as_json(self) -> dict[str, Any]:
        return {"shelf": list(self.shelf), "first": self.first, "rows": self.rows, "why": self.why}


class Losses:
    """The sums over all lives of a store."""

    def __init__(self, states: Mapping[Shelf, Any] | None = None) -> None:
        kept = {name[1:]: each for name, each in (states or {}).items() if name[:1] == (LOSSES,)}
        self._rows: dict[Shelf, int] = {shelf: each["rows"] for shelf, each in kept.items()}
        self._unknown: dict[Shelf, int] = {shelf: each["unknown"] for shelf, each in kept.items()}
        self.set_aside: list[str] = list((states or {}).get(SET_ASIDE) or ())

    def add(self, losses: Iterable[Loss], set_aside: str) -> None:
        for loss in losses:
            self._rows[loss.shelf] = self._rows.get(loss.shelf, 0) + (loss.rows or 0)
            self._unknown[loss.shelf] = self._unknown.get(loss.shelf, 0) + (loss.rows is None)
        self.set_aside = [*self.set_aside, set_aside][-KEPT_NAMES:]

    def states(self) -> dict[Shelf, Any]:
        """What is to be written so that the next life knows."""
        sums = {(LOSSES, *shelf): {"rows": rows, "unknown": self._unknown[shelf]} for shelf, rows in self._rows.items()}
        return {**sums, SET_ASIDE: self.set_aside}

    def rows(self, shelf: Shelf) -> int:
        """Rows that this shelf is known to have lost, ever: waiting ones only, each counted once."""
        return self._rows.get(shelf, 0)

    @property
    def total(self) -> int:
        return sum(self._rows.values())

    @property
    def unknown(self) -> int:
        """Places where something was, and nobody can say how much."""
        return sum(self._unknown.values())

    def snapshot(self) -> dict[str, Any]:
        damaged = [
            {"shelf": "/".join(shelf), "rows": rows, "unknown": self._unknown[shelf]}
            for shelf, rows in sorted(self._rows.items())
        ]
        return {"damaged": damaged, "lostRows": self.total, "lostUnknown": self.unknown, "setAside": self.set_aside}
