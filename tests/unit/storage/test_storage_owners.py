"""Owners: how many rows of a range of a log belong to which route."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bridgehead.columns.labels import Labels
from bridgehead.storage import owners as module
from bridgehead.storage.owners import Owners


def made(*runs: tuple[int, str]) -> Owners:
    """Each run of rows begins at its number; a letter is a route, a dot a row that is not there."""
    owners = Owners()
    for start, letters in runs:
        names = tuple(sorted(set(letters) - {"."}))
        of_row = [names.index(letter) if letter != "." else -1 for letter in letters]
        owners.extend(start, Labels(names, np.array(of_row, np.int32)))
    return owners


def test_rows_of_a_range_are_counted_by_route() -> None:
    owners = made((0, "aab"), (3, "bcb"))
    assert owners.counts(0, 6) == {"a": 2, "b": 3, "c": 1}
    assert owners.counts(1, 4) == {"a": 1, "b": 2}
    assert owners.counts(4, 4) == {}


def test_rows_that_are_not_there_belong_to_nobody() -> None:
    owners = made((0, "a.b"), (100, "b"))
    assert owners.counts(0, 1000) == {"a": 1, "b": 2}
    assert owners.counts(3, 100) == {}


def test_nothing_is_known_before_the_first_row() -> None:
    assert made((10, "ab")).counts(0, 11) == {"a": 1}
    assert Owners().counts(0, 5) == {}


def test_what_is_forgotten_leaves_the_rest_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    text = "abcaabbbaaccaaaaaaab"
    owners = made(*((at, text[at : at + 3]) for at in range(0, len(text), 3)))
    for below in range(len(text)):
        owners.forget(below)
        assert owners.counts(below, len(text)) == Counter(text[below:])
    assert len(owners._chunks) == 1


def test_rows_of_one_route_take_no_room_each() -> None:
    owners = Owners()
    for start in range(0, 10 * module.CHUNK, 1024):
        owners.extend(start, Labels.one("a", 1024))
    assert owners.counts(7, 10 * module.CHUNK) == {"a": 10 * module.CHUNK - 7}
    assert all(chunk.numbers.strides == (0,) for chunk in owners._chunks[:-1])


def test_names_come_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    assert made((0, "ab"), (2, "bc"), (4, "ca"), (6, "abc")).counts(0, 9) == {"a": 3, "b": 3, "c": 3}
