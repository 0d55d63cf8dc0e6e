"""What was changed by API calls, in a file of its own under ``dataDir``: the configuration file is its owner's alone.

An entry holds one bridge as it was given, placeholders and all, or says that the bridge was removed; and a digest of what
the configuration file said of this bridge at that time. When the file says something else, it has the last word: whoever
spoke last is heard.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import SettingsError

FILE: Final = "bridges.json"
"""Its name in ``dataDir``. It may hold passwords: only its owner may read it."""

Raw = dict[str, Any]
"""A bridge as it was written, ``${ENV:...}`` not filled in."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One bridge that was changed."""

    document: Raw | None  # None: it was removed
    over: str | None  # the digest of what the file said of it; None: nothing


@dataclass(frozen=True, slots=True)
class Overlay:
    """All of them by their ids, in the order in which they came, and which bridges were told to stop."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    stopped: frozenset[str] = frozenset()

    def changed(self, bridge: str, document: Raw | None, written: Raw | None) -> Overlay:
        """``written``: what the file says of this bridge. One that is as in the file needs no entry."""
        entries = {name: entry for name, entry in self.entries.items() if name != bridge or document is not None}
        if document == written:
            entries.pop(bridge, None)
        else:
            entries[bridge] = Entry(document, digest(written))
        return replace(self, entries=entries, stopped=self.stopped if document is not None else self.stopped - {bridge})

    def under(self, file: Mapping[str, Raw]) -> Overlay:
        """Without the entries of bridges of which the file says something else by now."""
        kept = {name: entry for name, entry in self.entries.items() if entry.over == digest(file.get(name))}
        there = {*file, *kept} - {name for name, entry in kept.items() if entry.document is None}
        return Overlay(kept, self.stopped & there)

    def save(self, data_dir: Path) -> None:
        """All of it or nothing, on the disk when this returns."""
        text = json.dumps(
            {
                "bridges": {name: {"document": one.document, "over": one.over} for name, one in self.entries.items()},
                "stopped": sorted(self.stopped),
            },
            indent=2,
        )
        data_dir.mkdir(parents=True, exist_ok=True)
        path, beside = data_dir / FILE, data_dir / f"{FILE}.new"
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        directory = os.open(data_dir, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def read_overlay(data_dir: Path) -> Overlay:
    """What an earlier life has saved; SettingsError if it cannot be understood."""
    path = data_dir / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        entries = {name: Entry(one["document"], one["over"]) for name, one in found["bridges"].items()}
        return Overlay(entries, frozenset(found["stopped"]))
    except FileNotFoundError:
        return Overlay()
    except OSError as error:
        raise SettingsError([(str(path), f"cannot be read: {error.strerror or error}")]) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        text = "is not what a node has written; without it the configuration file alone counts"
        raise SettingsError([(str(path), text)]) from None


def digest(document: Raw | None) -> str | None:
    if document is None:
        return None
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
