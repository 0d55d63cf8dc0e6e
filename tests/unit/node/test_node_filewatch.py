"""The watch on the configuration file: another text counts, and only when it has come to rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehead.node.filewatch import FileWatch


class Watched:
    """Of which "one" was read; ``found`` is what is there when the watch begins."""

    def __init__(self, path: Path, found: str = "one") -> None:
        self.path = path
        self.changes = 0
        path.write_text(found)
        self._watch = FileWatch(path, "one", self._changed)
        self._time = os.stat(path).st_mtime_ns

    def _changed(self) -> None:
        self.changes += 1

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.touch()

    def touch(self) -> None:
        self._time += 1_000_000_000
        os.utime(self.path, ns=(self._time, self._time))

    def looks(self, times: int) -> int:
        for _ in range(times):
            self._watch.look()
        return self.changes


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "node.yaml")


def test_what_was_written_after_the_file_was_read_and_before_it_was_watched_counts(tmp_path: Path) -> None:
    assert Watched(tmp_path / "node.yaml", found="two").looks(3) == 1


def test_a_file_that_is_as_it_was_is_no_change(watched: Watched) -> None:
    assert watched.looks(3) == 0
    watched.touch()
    assert watched.looks(3) == 0


def test_another_text_is_one_change_when_it_has_come_to_rest(watched: Watched) -> None:
    watched.write("two")
    assert watched.looks(1) == 0
    watched.write("three")
    assert watched.looks(1) == 0
    assert watched.looks(1) == 1
    assert watched.looks(3) == 1


def test_a_file_that_vanishes_and_comes_back_the_same_is_told_as_what_it_is(watched: Watched) -> None:
    watched.path.unlink()
    assert watched.looks(2) == 1
    watched.write("one")
    assert watched.looks(2) == 2


def test_a_file_that_another_one_takes_the_place_of_is_followed(watched: Watched, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("two")
    os.replace(other, watched.path)
    assert watched.looks(2) == 1
