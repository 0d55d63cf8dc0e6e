"""The archive of Spark's classes, with a real Java and classes of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridgehead.errors import CommandError
from bridgehead.java import java_home
from bridgehead.pipeline import classarchive


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return java_home(os.environ, shutil.which, tmp_path_factory.mktemp("java")).path / "bin" / "java"


def start(java: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([java, *options, "-version"], capture_output=True, text=True, timeout=120, check=False)


def test_without_an_archive_java_is_told_nothing(tmp_path: Path) -> None:
    assert classarchive.use(tmp_path / "none.jsa") == []


def test_java_makes_an_archive_of_the_classes_that_a_start_has_used(java: Path, tmp_path: Path) -> None:
    classes, archive = tmp_path / "classes", tmp_path / "deep" / "a.jsa"
    assert start(java, classarchive.note_classes(classes).split()).returncode == 0
    classarchive.make(java, "", classes, archive)
    shared = start(java, [*classarchive.use(archive), "-Xshare:on", "-Xlog:class+path=info"])
    assert shared.returncode == 0
    assert list(archive.parent.iterdir()) == [archive]


def test_an_archive_that_java_cannot_use_is_passed_over_without_a_word(java: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.jsa"
    archive.write_bytes(b"of another Java")
    without, beside = start(java, []), start(java, classarchive.use(archive))
    assert (beside.returncode, beside.stdout) == (0, without.stdout)
    assert beside.stderr == without.stderr.replace(", sharing", "")


def test_each_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    for name, script in (("a", "exec /one"), ("b", "exec /two"), ("c", "exec /one")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "java").write_text(script)
    one, two, also_one = (classarchive.location(tmp_path / name) for name in "abc")
    assert one == also_one != two
    (tmp_path / "a" / "release").write_text("17")
    (tmp_path / "b" / "release").write_text("21")
    assert len({classarchive.location(tmp_path / name) for name in "abc"}) == 3


def test_a_list_that_is_not_there_makes_no_archive_and_says_why(java: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no archive"):
        classarchive.make(java, "", tmp_path / "none", tmp_path / "a.jsa")
    assert list(tmp_path.iterdir()) == []
