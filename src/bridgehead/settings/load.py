"""From a file to settings, or to every fault in it at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ValidationError

from bridgehead.errors import SettingsError
from bridgehead.settings import fault
from bridgehead.settings.across import faults_across
from bridgehead.settings.document import Document, UnreadableError, read_document
from bridgehead.settings.fault import Fault, faults_of_model, located
from bridgehead.settings.model import VARIABLES, Settings
from bridgehead.settings.notyet import faults_not_yet
from bridgehead.settings.templates import faults_of_templates
from bridgehead.settings.transform import DIRECTORY

MAX_FILE_BYTES = 4 * 2**20  # a configuration is written by people


def load(path: Path, env: Mapping[str, str]) -> Settings:
    """The settings in a YAML file; raises SettingsError with everything that is wrong with it."""
    return parse(text_of(path), env, path.parent.absolute())


def text_of(path: Path) -> str:
    """What is in the file; SettingsError if that cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise SettingsError([(str(path), f"larger than {MAX_FILE_BYTES} bytes")])
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError([(str(path), f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsError([(f"{path} (line {line})", "not UTF-8 text")]) from None


def lines_of(path: Path, env: Mapping[str, str]) -> Mapping[fault.Path, int]:
    """The line of every key of a file that can be read."""
    return read_document(path.read_text(encoding="utf-8-sig"), env).lines


def parse(text: str, env: Mapping[str, str], directory: Path | None = None) -> Settings:
    """The settings in YAML text; some of the files it names are looked for from this directory."""
    with unreadable_as_faults():
        document = read_document(text, env)
    return settings_in(document, directory, env)


@contextmanager
def unreadable_as_faults() -> Iterator[None]:
    """Text of which nothing can be made is a fault like any other."""
    try:
        yield
    except UnreadableError as error:
        raise SettingsError([(error.where, str(error))]) from None


def from_document(document: Mapping[str, object]) -> Settings:
    """The settings in plain data with the keys of the file; for callers that have no file."""
    return settings_in(Document(value=dict(document)))


def default_settings() -> Settings:
    """What a node does when it is told nothing."""
    return from_document({})


def settings_in(document: Document, directory: Path | None = None, env: Mapping[str, str] = os.environ) -> Settings:
    """The settings in a document whose placeholders are filled in."""
    content = {} if document.value is None else document.value
    faults = list(document.faults)
    settings = None
    if isinstance(content, dict):
        try:
            settings = Settings.model_validate(content, context={DIRECTORY: directory or Path.cwd(), VARIABLES: env})
        except ValidationError as error:
            faults += _new(faults, faults_of_model(error.errors(include_url=False, include_input=False), known_keys()))
        faults += _new(faults, list(faults_across(content)))
        faults += _new(faults, list(faults_not_yet(content)))
        faults += _new(faults, list(faults_of_templates(content, env)))
    elif not faults:
        faults.append(Fault((), "the file must hold a mapping of keys to values"))
    if settings is None or faults:
        raise SettingsError(_in_order_of_the_file(faults, document.lines))
    return settings


def _new(known: list[Fault], more: list[Fault]) -> list[Fault]:
    """Those that are not the consequence of what is already known about the same place."""
    paths = {each.path for each in known}
    return [each for each in more if each.path not in paths]


def _in_order_of_the_file(faults: list[Fault], lines: Mapping[fault.Path, int]) -> list[tuple[str, str]]:
    told = [(*located(each.path, lines), each.text) for each in faults]
    return [(path, text) for path, _, text in sorted(told, key=lambda each: each[1])]


@cache
def known_keys() -> frozenset[str]:
    """Every key that any part of the settings knows."""
    return frozenset(_keys(Settings))


def _keys(annotation: object) -> Iterator[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for field in annotation.model_fields.values():
            yield field.alias or ""
            yield from _keys(field.annotation)
    for inner in get_args(annotation):
        yield from _keys(inner)
