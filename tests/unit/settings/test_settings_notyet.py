"""What is still to come is refused, unless it says what happens anyway."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings import from_document, parse
from bridgehead.settings.notyet import NOT_YET

TLS = {"certFile": "c.pem", "keyFile": "k.pem"}

# pattern -> (what is refused, what is accepted)
CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "listeners[*].type": (["tls", "ws"], ["tcp"]),
    "auth.allowAnonymous": ([False, "false"], [True, "true"]),
    "auth.users": ([[{"name": "u"}]], [[]]),
    "auth.permissions": ([[{"topic": "a"}]], [[]]),
}


def documents(pattern: str, value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Documents that hold the value where the pattern says, and nothing else that is wrong; with the path."""
    *above, last = pattern.replace("[*]", ".[*]").split(".")
    document: dict[str, Any] = {}
    place: Any = document
    for step, following in zip(above, [*above[1:], last], strict=True):
        if step == "[*]":
            place.append({})
            place = place[0]
        else:
            place[step] = place = [] if following == "[*]" else {}
    place[last] = value
    if last == "type" and value == "tls":
        place["tls"] = TLS
    for bridge in document.get("bridges", []):
        bridge.update({"id": "a"} | ({} if last == "hosts" else {"host": "h"}))
    return [(pattern.replace("[*]", "[0]"), document)]


def test_every_entry_of_the_table_has_a_case() -> None:
    assert set(CASES) == set(NOT_YET)


@pytest.mark.parametrize(("pattern", "value"), [(key, each) for key, (refused, _) in CASES.items() for each in refused])
def test_what_is_still_to_come_is_refused(pattern: str, value: Any) -> None:
    for path, document in documents(pattern, value):
        with pytest.raises(SettingsError) as caught:
            from_document(document)
        [(where, text)] = caught.value.faults
        assert where == path
        assert text.startswith("not supported yet")


@pytest.mark.parametrize(("pattern", "value"), [(key, each) for key, (_, fine) in CASES.items() for each in fine])
def test_a_default_that_is_written_down_is_accepted(pattern: str, value: Any) -> None:
    for _, document in documents(pattern, value):
        from_document(document)


def test_what_is_wrong_anyway_is_not_called_unsupported() -> None:
    with pytest.raises(SettingsError) as caught:
        parse("persistence: {mode: floppy}", {})
    assert [text for _, text in caught.value.faults] == ["must be 'in-memory' or 'file-native'"]
