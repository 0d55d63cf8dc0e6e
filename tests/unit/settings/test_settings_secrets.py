"""A password appears nowhere: not in a fault, not in a repr, not in a traceback."""

from __future__ import annotations

import traceback

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings import Settings, parse

SECRET = "hunter2hunter2"


def test_a_password_is_not_shown_but_can_be_had() -> None:
    settings = parse("bridges: [{id: a, host: h, password: '${ENV:P}'}]", {"P": SECRET})
    assert SECRET not in repr(settings) + str(settings) + str(settings.model_dump()) + settings.model_dump_json()
    password = settings.bridges[0].password
    assert password is not None
    assert password.get_secret_value() == SECRET


@pytest.mark.parametrize(
    "text",
    [
        "bridges: [{id: a, host: h, password: [%s]}]",
        "bridges: [{id: a, host: h, password: {a: %s}}]",
        "bridges: [{id: a, host: h, mqttVersion: 3.1.1, password: %s}]",
        "bridges: [{id: a, host: h, password: %s, password: %s}]",
        "bridges: [{id: a, host: h, password: *%s}]",
        "bridges: [{id: a, host: h, password: !%s}]",
        "bridges: [{id: a, host: h, password: !%s!x y}]",
        "bridges: [{id: a, host: h, password: @%s}]",
        "bridges: [{id: a, host: h, password: '%s}]",
        "bridges: [{id: a, host: h, password: \"\\q%s\"}]",
        "bridges: [{id: a, host: h, password: %s]",
        "bridges: [{id: a, host: h, proxy: 'http://u:%s@x'}]",
        "bridges: [{id: a, host: h, proxy: [%s]}]",
        "bridges: [{id: a, host: h, proxy: 'ftp://u:%s@x:1'}]",
        "bridges: [{id: a, host: h, bridgeTls: {certFile: c.p12, keyPassword: [%s]}}]",
        "pipeline: {conf: {spark.secret: [%s]}}",
        "pipeline: {flight: {token: [%s]}}",
        "pipeline: {flight: {token: 'with space %s'}}",
        "bridges: [{id: a, password: %s, port: x}]",
    ],
)
def test_no_fault_shows_a_password(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text.replace("%s", SECRET), {})
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown


def test_spark_configuration_is_not_shown_either() -> None:
    settings = parse("pipeline: {conf: {spark.secret: '${ENV:P}'}}", {"P": SECRET})
    assert SECRET not in repr(settings)


def test_pydantics_own_error_hides_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="password") as caught:
        Settings.model_validate({"bridges": [{"id": "a", "host": "h", "password": [SECRET]}]})
    assert SECRET not in str(caught.value)
