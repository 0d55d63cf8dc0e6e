"""The options of ``format("mqtt")``: each fault has a name and a text, and defaults are stable."""

from __future__ import annotations

import pytest

from bridgehead.errors import SettingsError
from bridgehead.spark.datasource import way_of
from bridgehead.spark.options import Sink, Source, as_document, default_journal, parse

GOOD = {"url": "mqtt://broker", "topics": "a/#,b/+", "clientid": "reader"}


def faults(kind: type[Source] | type[Sink], **options: str) -> dict[str, str]:
    given = {**(GOOD if kind is Source else {"url": "mqtt://broker"}), **options}
    with pytest.raises(SettingsError) as refused:
        parse(kind, given)
    return dict(refused.value.faults)


def test_names_come_in_any_case_and_values_as_text() -> None:
    source = parse(Source, {**GOOD, "MAXROWSPERTRIGGER": "10", "verifyhostname": "false", "qos": "2", "mqttVersion": "3.1.1"})
    assert (source.max_rows_per_trigger, source.verify_hostname, source.qos, source.version) == (10, False, 2, 4)
    assert source.topics == ("a/#", "b/+")


def test_a_topic_with_a_comma_is_given_in_a_json_array() -> None:
    assert parse(Source, {**GOOD, "topics": '["a,b/#", "c"]'}).topics == ("a,b/#", "c")


@pytest.mark.parametrize(
    ("url", "address", "secure"),
    [
        ("mqtt://broker", ("broker", 1883), False),
        ("mqtts://broker", ("broker", 8883), True),
        ("mqtt://[::1]:1884/", ("::1", 1884), False),
    ],
)
def test_a_url_says_where_and_whether_with_tls(url: str, address: tuple[str, int], secure: bool) -> None:
    source = parse(Source, {**GOOD, "url": url})
    assert (source.address, source.secure) == (address, secure)


@pytest.mark.parametrize(
    ("options", "name", "text"),
    [
        ({"url": "http://broker"}, "url", "mqtt://host"),
        ({"url": "mqtt://u:p@broker"}, "url", "username and password"),
        ({"url": "mqtt://broker/topic"}, "url", "topics"),
        ({"url": "mqtt://broker:99999"}, "url", "port"),
        ({"topics": ""}, "topics", "at least one"),
        ({"topics": "a/#/b"}, "topics[0]", "valid topic filter"),
        ({"topics": "[1"}, "topics", "JSON"),
        ({"qos": "3"}, "qos", "less than or equal to 2"),
        ({"clientid": ""}, "clientId", "at least 1 character"),
        ({"startingoffsets": "newest"}, "startingOffsets", "earliest"),
        ({"maxrowspertrigger": "0"}, "maxRowsPerTrigger", "greater than"),
        ({"maxbytespertrigger": "1MB"}, "maxBytesPerTrigger", "KiB, MiB"),
        ({"partitions": "none"}, "partitions", "integer"),
        ({"mqttversion": "4"}, "mqttVersion", "3.1.1"),
        ({"cafile": "ca.pem"}, "", "mqtts://"),
        ({"topic": "a"}, "topic", "unknown option; did you mean topics?"),
    ],
)
def test_what_a_reader_cannot_use_is_named(options: dict[str, str], name: str, text: str) -> None:
    found = faults(Source, **options)
    assert any(at.startswith(name) and text in said for at, said in found.items()), found


@pytest.mark.parametrize(
    ("options", "name", "text"),
    [
        ({"topic": "a/#"}, "topic", "published"),
        ({"userproperties": "[1]"}, "userProperties", "JSON object"),
        ({"retain": "perhaps"}, "retain", "boolean"),
        ({"url": "mqtts://b", "keyfile": "k.pem"}, "", "keyFile needs certFile"),
        ({"topics": "a"}, "topics", "unknown option; did you mean topic?"),
    ],
)
def test_what_a_writer_cannot_use_is_named(options: dict[str, str], name: str, text: str) -> None:
    found = faults(Sink, **options)
    assert any(at.startswith(name) and text in said for at, said in found.items()), found


def test_all_faults_come_at_once() -> None:
    assert set(faults(Source, qos="7", partitions="0")) == {"qos", "partitions"}


def test_a_reader_needs_topics_and_a_client_id() -> None:
    with pytest.raises(SettingsError) as refused:
        parse(Source, {"url": "mqtt://broker"})
    assert dict(refused.value.faults) == dict.fromkeys(("topics", "clientId"), "required, but missing")


def test_a_client_id_always_finds_its_journal_and_no_other_one_does() -> None:
    assert default_journal("a/b") == default_journal("a/b")
    assert default_journal("a/b") != default_journal("a_b")
    assert parse(Source, GOOD).journal_dir == default_journal("reader")


def test_what_spark_passes_on_for_itself_is_left_alone() -> None:
    assert parse(Sink, {"url": "mqtt://broker", "checkpointlocation": "/tmp/c"}).topic is None


def test_options_cross_a_pipe_with_their_secrets_and_show_them_nowhere() -> None:
    source = parse(Source, {**GOOD, "username": "u", "password": "hunter2", "journaldir": "/j"})
    again = Source.model_validate(as_document(source))
    assert again == source
    assert "hunter2" not in repr(source)


def test_exactly_one_way_is_asked_for() -> None:
    with pytest.raises(SettingsError, match="exactly one"):
        way_of({"topics": "a"})
