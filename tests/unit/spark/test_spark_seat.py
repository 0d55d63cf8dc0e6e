"""One reader a journal."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import StartError
from bridgehead.spark.seat import Seat


def nobody(found: dict[str, Any]) -> None:
    raise AssertionError("nobody sits here")


def test_a_free_seat_is_taken_and_only_its_owner_can_read_who_sits_there(tmp_path: Path) -> None:
    seat = Seat(tmp_path / "new" / "journal", nobody)
    seat.leave()
    assert stat.S_IMODE((tmp_path / "new" / "journal" / "reader.json").stat().st_mode) == 0o600


def test_a_taken_seat_is_refused_with_the_process_that_has_it(tmp_path: Path) -> None:
    first = Seat(tmp_path, nobody)
    first.write({"pid": 4711})
    asked: list[dict[str, Any]] = []
    with pytest.raises(StartError, match=r"in use by another reader \(process 4711\)"):
        Seat(tmp_path, asked.append, patience=0.2)
    assert asked[0] == {"pid": 4711}
    first.leave()


def test_one_that_leaves_when_asked_makes_room(tmp_path: Path) -> None:
    first = Seat(tmp_path, nobody)
    second = Seat(tmp_path, lambda found: first.leave(), patience=20)
    second.leave()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"journalDir .*file"):
        Seat(tmp_path / "file", nobody)
