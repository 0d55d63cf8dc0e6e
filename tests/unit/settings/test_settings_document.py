"""YAML read with care."""

from __future__ import annotations

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings import parse


def refusal(text: str, **env: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse(text, env)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}"])
def test_an_empty_document_is_a_node_with_all_defaults(text: str) -> None:
    assert parse(text, {}).bridges == ()


def test_a_syntax_error_has_line_and_column() -> None:
    assert refusal("node: a\nlisteners: [\n").startswith("line 3, column 1: not valid YAML")
    assert refusal("node: a\nb: \x07").startswith("line 2, column 4: not valid YAML")
    assert refusal("node:\n\ta: 1\n") == "line 2, column 1: not valid YAML: found a tab that cannot start any token"


@pytest.mark.parametrize("text", ["- 1", "text", "5", "[]"])
def test_a_document_that_is_no_mapping_is_refused(text: str) -> None:
    assert refusal(text) == "line 1: the file must hold a mapping of keys to values"


def test_a_key_given_twice_is_told_with_both_lines() -> None:
    assert refusal("node: a\nconsole:\n  port: 1\n  port: 2\n") == (
        "console.port (line 3): given twice: on line 3, and again on line 4"
    )


def test_a_key_that_is_not_text_is_refused() -> None:
    assert "the key on line 2 must be text" in refusal("node: a\n5: x\n")


def test_a_value_that_only_looks_like_a_date_is_refused() -> None:
    assert refusal("node: 2024-13-45").startswith("node (line 1): looks like a number or a date")


def test_unknown_tags_are_refused() -> None:
    assert "a YAML tag that is not known here" in refusal("node: !!python/object/apply:os.getcwd []")
    assert "a YAML tag that is not known here" in refusal("node: !x y")


def test_aliases_and_merges_work_and_own_keys_win() -> None:
    settings = parse(
        """
bridges:
  - &base {id: a, host: h, keepAlive: 5, localSubscriptions: [{filters: [x]}]}
  - {<<: *base, id: b, keepAlive: 7}
""",
        {},
    )
    assert [(each.id, each.host, each.keep_alive) for each in settings.bridges] == [("a", "h", 5), ("b", "h", 7)]
    assert len(settings.bridges[1].local_subscriptions) == 1


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdef", "bcdefg", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    assert "more than 200000 values" in refusal("\n".join(lines))


@pytest.mark.parametrize("text", ["node: &a [*a]", "&a {node: *a}", "&a {<<: *a}"])
def test_a_document_that_contains_itself_is_refused(text: str) -> None:
    assert "an alias that contains itself" in refusal(text)


def test_endless_nesting_is_refused() -> None:
    assert "nested too deeply" in refusal("node: " + "[" * 5000)


def test_a_variable_is_filled_in_anywhere_in_a_value() -> None:
    text = "node: a-${ENV:X}-${ENV:Y}\nconsole: {port: '${ENV:P}'}\nbridges: [{id: a, host: h, cleanStart: '${ENV:B}'}]"
    settings = parse(text, {"X": "b", "Y": "c", "P": "99", "B": "true"})
    assert (settings.node, settings.console.port, settings.bridges[0].clean_start) == ("a-b-c", 99, True)


def test_what_a_variable_holds_is_not_filled_in_again() -> None:
    bridge = parse("bridges: [{id: a, host: h, username: '${ENV:X}'}]", {"X": "${ENV:Y}"}).bridges[0]
    assert bridge.username == "${ENV:Y}"


def test_each_unset_variable_is_named() -> None:
    assert refusal("console: {port: '${ENV:NOPE}${ENV:NADA}'}") == (
        "console.port (line 1): the environment variable NOPE is not set\n"
        "console.port (line 1): the environment variable NADA is not set"
    )


def test_an_empty_variable_is_a_value_but_an_empty_name_is_none() -> None:
    assert parse("bridges: [{id: a, host: h, username: '${ENV:X}'}]", {"X": ""}).bridges[0].username == ""
    assert "must hold the name" in refusal("node: ${ENV:}")
    assert "never closed" in refusal("node: ${ENV:X")
