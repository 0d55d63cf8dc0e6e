"""The file and what API calls have changed since: who spoke last is heard, and placeholders stay as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead.errors import SettingsError
from bridgehead.settings.configuration import Configuration
from bridgehead.settings.load import from_document
from bridgehead.settings.overlay import FILE, read_overlay

ENV = {"SECRET": "open sesame"}


def bridge(name: str, **given: Any) -> dict[str, Any]:
    return {"id": name, "host": "example.com", **given}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "node.yaml"
    write(path, bridge("one"), bridge("two", username="u", password="${ENV:SECRET}"))
    return path


def write(path: Path, *bridges: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump({"dataDir": str(path.parent / "data"), "bridges": list(bridges)}))


def save(configuration: Configuration) -> None:
    configuration.overlay.save(configuration.settings.data_dir)


def ids(configuration: Configuration) -> list[str]:
    assert list(configuration.bridges) == [each.id for each in configuration.settings.bridges]
    return list(configuration.bridges)


def test_a_file_that_nobody_has_changed_is_all_there_is(path: Path) -> None:
    found = Configuration.read(path, ENV)
    assert ids(found) == ["one", "two"]
    assert found.bridges["two"]["password"] == "${ENV:SECRET}"
    password = found.settings.bridges[1].password
    assert password is not None
    assert password.get_secret_value() == "open sesame"


def test_what_was_changed_is_found_in_the_next_life_with_its_placeholders(path: Path) -> None:
    found = Configuration.read(path, ENV)
    changed = found.changed("three", bridge("three", username="${ENV:SECRET}")).changed("one", None)
    changed = changed.changed("two", bridge("two", keepAlive=5)).told_to_stop("two", stop=True)
    save(changed)
    again = Configuration.read(path, ENV)
    assert ids(again) == ["two", "three"]
    assert (again.settings.bridges[0].keep_alive, again.settings.bridges[1].username) == (5, "open sesame")
    assert again.overlay.stopped == {"two"}
    assert again.bridges["three"]["username"] == "${ENV:SECRET}"
    saved = path.parent / "data" / FILE
    assert "open sesame" not in saved.read_text()
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_change_of_the_file_has_the_last_word_on_its_own_bridges(path: Path) -> None:
    found = Configuration.read(path, ENV).changed("one", bridge("one", keepAlive=5)).changed("two", bridge("two", keepAlive=6))
    write(path, bridge("one", keepAlive=7), bridge("two", username="u", password="${ENV:SECRET}"))
    again = found.reread()
    assert [each.keep_alive for each in again.settings.bridges] == [7, 6]
    assert set(again.overlay.entries) == {"two"}


def test_a_bridge_that_is_changed_back_to_what_the_file_says_is_the_files_again(path: Path) -> None:
    found = Configuration.read(path, ENV).changed("one", bridge("one", keepAlive=5)).changed("one", bridge("one"))
    assert found.overlay.entries == {}


def test_a_bridge_that_comes_back_in_the_file_after_it_was_removed_is_there(path: Path) -> None:
    found = Configuration.read(path, ENV).changed("one", None)
    assert ids(found.reread()) == ["two"]
    write(path, bridge("two", username="u", password="${ENV:SECRET}"))
    found = found.reread()
    write(path, bridge("one"), bridge("two", username="u", password="${ENV:SECRET}"))
    assert ids(found.reread()) == ["one", "two"]


def test_every_fault_of_a_file_is_told_with_its_line_though_bridges_before_it_are_gone(path: Path) -> None:
    found = Configuration.read(path, ENV).changed("one", None)
    good = path.read_text()
    path.write_text(good.replace("username: u", "username: ${ENV:UNSET}").replace("host: example.com", "host: ''", 2))
    with pytest.raises(SettingsError) as caught:
        found.reread()
    text = path.read_text().splitlines()
    places = {place.partition(" (line ")[0]: int(place.partition(" (line ")[2][:-1]) for place, _ in caught.value.faults}
    for place, line in places.items():
        assert place.rpartition(".")[2] in text[line - 1]
    assert "bridges[0].username" in places or "bridges[1].username" in places


def test_a_fault_in_what_was_told_by_a_call_is_named_by_the_bridge(path: Path) -> None:
    found = Configuration.read(path, ENV).changed("one", None).changed("three", bridge("three", username="${ENV:SECRET}"))
    save(found)
    with pytest.raises(SettingsError) as caught:
        Configuration.read(path, {})
    assert [place for place, _ in caught.value.faults if place.startswith(FILE)] == []  # the file alone has faults enough
    write(path, bridge("two"))
    with pytest.raises(SettingsError) as caught:
        Configuration.read(path, {})
    assert caught.value.faults == [(f"{FILE}: three: username", "the environment variable SECRET is not set")]


def test_a_fault_changes_nothing(path: Path) -> None:
    found = Configuration.read(path, ENV)
    with pytest.raises(SettingsError):
        found.changed("three", {"id": "three", "port": 0})
    assert ids(found) == ["one", "two"]


def test_what_nobody_could_have_saved_is_told_and_not_passed_over(path: Path) -> None:
    data = path.parent / "data"
    data.mkdir()
    (data / FILE).write_text("[]")
    with pytest.raises(SettingsError, match="is not what a node has written"):
        Configuration.read(path, ENV)
    assert read_overlay(path.parent).entries == {}


def test_settings_without_a_file_can_be_changed_too(tmp_path: Path) -> None:
    made = from_document({"dataDir": str(tmp_path), "bridges": [bridge("one", username="u", password="p")]})
    found = Configuration.of(made).changed("two", bridge("two"))
    assert ids(found) == ["one", "two"]
    assert found.settings.bridges[0] == made.bridges[0]
