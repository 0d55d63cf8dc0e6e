"""The configuration of a running node: its file, and what API calls have changed since (``overlay``).

Values keep their ``${ENV:...}`` here as they were written; they are filled in only in ``settings``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from bridgehead.errors import SettingsError
from bridgehead.settings.document import Document, read_document
from bridgehead.settings.environment import fill_in
from bridgehead.settings.fault import Fault
from bridgehead.settings.fault import Path as Place
from bridgehead.settings.load import settings_in, text_of, unreadable_as_faults
from bridgehead.settings.model import Settings
from bridgehead.settings.overlay import FILE, Overlay, Raw, read_overlay

_LINE: Final = re.compile(r" \(line \d+\)$")


class _AsWritten(Mapping[str, str]):
    """An environment in which every variable stands for its own placeholder."""

    def __getitem__(self, name: str) -> str:
        return f"${{ENV:{name}}}"

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """Never changed: each change gives a new one, or SettingsError with every fault."""

    path: Path | None  # None: there is no file
    env: Mapping[str, str]
    file: Document  # what is in it
    overlay: Overlay
    settings: Settings
    text: str = ""  # of the file

    @staticmethod
    def read(path: Path | None, env: Mapping[str, str]) -> Configuration:
        """The file, with what an earlier life has saved of API calls."""
        text = _text(path)
        file = _document(text)
        alone = _settings(file, Overlay(), env, path)
        overlay = read_overlay(alone.data_dir).under(_bridges(file.value))
        return Configuration(path, env, file, overlay, _settings(file, overlay, env, path), text)

    @staticmethod
    def of(settings: Settings) -> Configuration:
        """That of a node without a file, whose settings somebody has made."""
        given = {"bridges": [_plain(bridge.model_dump(by_alias=True, exclude_unset=True)) for bridge in settings.bridges]}
        whole = {**_plain(settings.model_dump(by_alias=True, exclude_unset=True)), **given}
        return Configuration(None, {}, Document(value=whole), Overlay(), settings)

    def reread(self) -> Configuration:
        """The same file as it is now. One that has lost all that it said was cut short: nobody meant that."""
        if self.path is None:
            return self
        text = _text(self.path)
        file = _document(text)
        if self.file.value and not file.value:
            raise SettingsError([(str(self.path), "says nothing any more; a node without bridges has bridges: []")])
        return replace(self._with(file, self.overlay.under(_bridges(file.value))), text=text)

    @property
    def bridges(self) -> dict[str, Raw]:
        """Every bridge as it was written, by its id, in order."""
        return {str(each.get("id")): each for _, each in _merged(self.file.value, self.overlay)}

    def changed(self, bridge: str, document: Raw | None) -> Configuration:
        """With another bridge of this id, or (None) without it."""
        return self._with(self.file, self.overlay.changed(bridge, document, _bridges(self.file.value).get(bridge)))

    def told_to_stop(self, bridge: str, *, stop: bool) -> Configuration:
        stopped = self.overlay.stopped | {bridge} if stop else self.overlay.stopped - {bridge}
        return replace(self, overlay=replace(self.overlay, stopped=stopped))

    def _with(self, file: Document, overlay: Overlay) -> Configuration:
        settings = _settings(file, overlay, self.env, self.path)
        return replace(self, file=file, overlay=overlay, settings=settings)


def _text(path: Path | None) -> str:
    return "" if path is None else text_of(path)


def _document(text: str) -> Document:
    with unreadable_as_faults():
        return read_document(text, _AsWritten())


def _settings(file: Document, overlay: Overlay, env: Mapping[str, str], path: Path | None) -> Settings:
    """What the file and the changes say together, with the environment filled in."""
    directory = None if path is None else path.parent.absolute()
    value, lines = file.value, file.lines
    merged = _merged(value, overlay)
    if isinstance(value, dict) and overlay.entries:
        value = {**value, "bridges": [each for _, each in merged]}
        now_at = {was: now for now, (was, _) in enumerate(merged) if was is not None}
        lines = {moved: line for place, line in lines.items() if (moved := _moved(place, now_at)) is not None}
    unfilled: list[Fault] = []
    value = _filled_in(value, env, (), unfilled)
    known = {each.path for each in file.faults}
    faults = [*file.faults, *(each for each in unfilled if each.path not in known)]
    try:
        return settings_in(Document(value, dict(lines), faults), directory, env)
    except SettingsError as error:
        told = {f"bridges[{at}]": str(each.get("id")) for at, (was, each) in enumerate(merged) if was is None}
        raise SettingsError([(_named(place, told), text) for place, text in error.faults]) from None


def _named(place: str, told: Mapping[str, str]) -> str:
    """What was told by a call is not in the file: it has no line there, and is named by its id."""
    at, _, inside = _LINE.sub("", place).partition("].")
    bridge = told.get(f"{at.removesuffix(']')}]")
    return place if bridge is None else in_overlay(bridge, inside)


def in_overlay(bridge: str, place: str = "") -> str:
    """Where a fault is that came by a call."""
    return f"{FILE}: {bridge}" + (f": {place}" if place else "")


def _merged(value: Any, overlay: Overlay) -> list[tuple[int | None, Raw]]:
    """Every bridge with its place in the file, None for those that are not as in the file."""
    found: list[tuple[int | None, Raw]] = []
    written = value.get("bridges") if isinstance(value, dict) else None
    for index, each in enumerate(written if isinstance(written, list) else ()):
        entry = overlay.entries.get(each["id"]) if isinstance(each, dict) and isinstance(each.get("id"), str) else None
        if entry is None:
            found.append((index, each))
        elif entry.document is not None:
            found.append((None, entry.document))
    there = _bridges(value)
    found += [
        (None, entry.document) for name, entry in overlay.entries.items() if name not in there and entry.document is not None
    ]
    return found


def _bridges(value: Any) -> dict[str, Raw]:
    """The bridges of a document by their ids; whatever is none is told by whoever checks it."""
    written = value.get("bridges") if isinstance(value, dict) else None
    each_with_id = (each for each in written if isinstance(each, dict)) if isinstance(written, list) else ()
    return {each["id"]: each for each in each_with_id if isinstance(each.get("id"), str)}


def _moved(place: Place, now_at: Mapping[int, int]) -> Place | None:
    """Where something of the file is after the merge; None: it is not there any more."""
    if len(place) < 2 or place[0] != "bridges" or not isinstance(place[1], int):
        return place
    return ("bridges", now_at[place[1]], *place[2:]) if place[1] in now_at else None


def _filled_in(value: Any, env: Mapping[str, str], place: Place, faults: list[Fault]) -> Any:
    if isinstance(value, str):
        text, wrong = fill_in(value, env)
        faults += [Fault(place, each) for each in wrong]
        return text
    if isinstance(value, dict):
        return {key: _filled_in(each, env, (*place, key), faults) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled_in(each, env, (*place, index), faults) for index, each in enumerate(value)]
    return value


def _plain(value: Any) -> Any:
    """Settings as somebody could have written them."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
