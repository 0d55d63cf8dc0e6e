"""What is refused, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bridgehead.errors import SettingsError
from bridgehead.settings import from_document, load, parse


def faults_of(text: str, **env: str) -> dict[str, str]:
    """Path (without its line) -> text."""
    with pytest.raises(SettingsError) as caught:
        parse(text, env)
    return {path.split(" (line")[0]: text for path, text in caught.value.faults}


def accepts(**bridge: object) -> None:
    from_document({"bridges": [{"id": "a", "host": "h", **bridge}]})


def bridge_faults(**bridge: object) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        from_document({"bridges": [{"id": "a", "host": "h", **bridge}]})
    return dict(caught.value.faults)


def rule_faults(**rule: object) -> dict[str, str]:
    return {
        path.removeprefix("bridges[0].localSubscriptions[0]."): text
        for path, text in bridge_faults(localSubscriptions=[{"filters": ["a"], **rule}]).items()
    }


def test_many_faults_are_told_at_once_in_the_order_of_the_file_with_their_lines() -> None:
    text = """\
nodee: x
listeners:
  - {host: 0.0.0.0}
persistence: {mode: floppy}
console:
  port: 70000
  port: 8081
bridges:
  - id: a
    host: h
    port: ${ENV:NOPE}
    localSubscriptions:
      - {filters: [ok]}
      - filters: ["x/#/y"]
        transform: {sql: SELECT 1, python: "m:f"}
  - id: a
"""
    with pytest.raises(SettingsError) as caught:
        parse(text, {})
    assert [path for path, _ in caught.value.faults] == [
        "nodee (line 1)",
        "listeners[0].host (line 3)",
        "persistence.mode (line 4)",
        "console.port (line 6)",
        "bridges[0].port (line 11)",
        "bridges[0].localSubscriptions[1].filters[0] (line 14)",
        "bridges[0].localSubscriptions[1].transform (line 15)",
        "bridges[1].id (line 16)",
        "bridges[1].host (line 16)",
    ]


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    assert faults_of("bridges: [{id: a, host: h, localSubscription: []}]") == {
        "bridges[0].localSubscription": "unknown key; did you mean localSubscriptions?"
    }
    assert faults_of("qqq: 1") == {"qqq": "unknown key"}


def test_the_names_used_in_code_are_no_keys_of_the_file() -> None:
    assert set(faults_of("data_dir: x")) == {"data_dir"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("node: 5", "node"),
        ("node: a/b", "node"),
        ("listeners: [{port: 65536}]", "listeners[0].port"),
        ("listeners: [{port: -1}]", "listeners[0].port"),
        ("listeners: [{port: yes}]", "listeners[0].port"),
        ("listeners: [{host: ''}]", "listeners[0].host"),
        ("listeners: [{type: udp}]", "listeners[0].type"),
        ("listeners: {}", "listeners"),
        ("console: 5", "console"),
        ("queuedMessages: {maxQueuedMessages: 0}", "queuedMessages.maxQueuedMessages"),
        ("queuedMessages: {maxQueueBytes: 1MB}", "queuedMessages.maxQueueBytes"),
        ("queuedMessages: {maxQueueBytes: -1}", "queuedMessages.maxQueueBytes"),
        ("queuedMessages: {strategy: pray}", "queuedMessages.strategy"),
        ("journal: {maxBytes: 0}", "journal.maxBytes"),
        ("pipeline: {engine: flink}", "pipeline.engine"),
        ("pipeline: {master: ''}", "pipeline.master"),
        ("pipeline: {maxRowsPerBatch: 0}", "pipeline.maxRowsPerBatch"),
        ("pipeline: {maxBytesPerBatch: 2GiB}", "pipeline.maxBytesPerBatch"),
        ("pipeline: {conf: {spark.x: [1]}}", 'pipeline.conf["spark.x"]'),
        ("pipeline: {flight: {port: 65536}}", "pipeline.flight.port"),
    ],
)
def test_a_value_out_of_bounds_is_told_once(text: str, path: str) -> None:
    assert list(faults_of(text)) == [path]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "a b"),
        ("id", ""),
        ("id", "a\n"),
        ("port", 0),
        ("clientId", ""),
        ("clientId", "a\0"),
        ("mqttVersion", 4),
        ("keepAlive", 65_536),
        ("sessionExpiry", 4_294_967_296),
        ("sessionExpiry", -1),
        ("cleanStart", "perhaps"),
        ("username", "u" * 65_536),
        ("password", "é" * 40_000),
        ("loopPreventionHopCount", 0),
        ("loopPreventionHopCount", 101),
        ("tier2Limit", 0),
        ("watchdog", 0),
        ("rateLimit", float("inf")),
        ("rateLimit", 0),
        ("rateLimit", 2e9),
        ("liveFirst", "perhaps"),
        ("persist", None),
    ],
)
def test_a_bridge_with_a_value_out_of_bounds_is_refused(key: str, value: object) -> None:
    assert list(bridge_faults(**{key: value})) == [f"bridges[0].{key}"]


@pytest.mark.parametrize("bad", ["", "a/#/b", "a#", "a+/b", "a\0", "$share//a", "$share/g", "$share/g+/a"])
@pytest.mark.parametrize("key", ["filters", "excludes"])
def test_an_invalid_filter_is_refused(key: str, bad: str) -> None:
    assert list(rule_faults(**{key: ["fine", bad]})) == [f"{key}[1]"]


def test_a_rule_needs_filters_and_each_only_once() -> None:
    assert rule_faults(filters=[]) == {"filters": "must have at least one entry"}
    assert rule_faults(filters=["a", "a"]) == {"filters": "the same filter is given more than once"}


@pytest.mark.parametrize("bad", ["", "a/+/b", "a/#", "a\0", "{#}{#}", "{1}/#", "a" * 65_536])
def test_an_invalid_destination_is_refused(bad: str) -> None:
    assert list(rule_faults(destination=bad)) == ["destination"]


@pytest.mark.parametrize(
    "bad", ["{0}", "{1a}", "{x-2}", "{x}", "a/{", "{3-2}", "a{2-3}{1}", "$ENV{WILD}/x", "$ENV{UNSET}", "{+1}", "{+#}"]
)
@pytest.mark.parametrize("key", ["localSubscriptions", "remoteSubscriptions"])
def test_a_template_that_can_never_work_is_refused_at_its_place(key: str, bad: str) -> None:
    document = {"bridges": [{"id": "a", "host": "h", key: [{"filters": ["a"]}, {"filters": ["a"], "destination": bad}]}]}
    with pytest.raises(SettingsError) as caught:
        parse(yaml.safe_dump(document), {"WILD": "a/+"})
    [(where, text)] = caught.value.faults
    assert where.startswith(f"bridges[0].{key}[1].destination (line ")
    assert "a/+" not in text, "what a variable holds may be a secret"


def test_a_wildcard_that_no_filter_has_is_told_together_with_what_else_is_wrong() -> None:
    rules = [{"filters": ["a/+"], "destination": "{+2}"}, {"filters": ["a/+", "a/+/+"], "destination": "{+2}"}, {"filters": []}]
    assert list(bridge_faults(localSubscriptions=rules, keepAlive=-1)) == [
        "bridges[0].keepAlive",
        "bridges[0].localSubscriptions[2].filters",
        "bridges[0].localSubscriptions[0].destination",
    ]


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        ({"pattern": "a("}, "rewrite[0]"),
        ({"pattern": "(?=a)"}, "rewrite[0]"),
        ({"pattern": "(a)", "replacement": "\\2"}, "rewrite[0]"),
        ({"pattern": "a", "replacement": "b/#"}, "rewrite[0]"),
        ({"pattern": "a", "replacement": "\0"}, "rewrite[0].replacement"),
        ({"pattern": ""}, "rewrite[0].pattern"),
        ({"replacement": "a"}, "rewrite[0].pattern"),
        ({"pattern": "a", "with": "b"}, "rewrite[0].with"),
    ],
)
def test_a_rewrite_that_cannot_work_is_refused(bad: dict[str, str], place: str) -> None:
    assert list(rule_faults(rewrite=[bad])) == [place]


@pytest.mark.parametrize("good", [None, "a", "/", "a/b", "{#}", "cloud/{#}", "{#}/x/{#}", "ü/€", "$x/y"])
def test_a_destination_of_literal_levels_and_whole_topics_is_accepted(good: str | None) -> None:
    rule = {"filters": ["a"], "destination": good}
    settings = from_document({"bridges": [{"id": "a", "host": "h", "localSubscriptions": [rule]}]})
    assert settings.routes()[0].destination == good


@pytest.mark.parametrize(("key", "value"), [("maxQoS", 3), ("queueLimit", 0), ("maxQueueBytes", 0), ("engine", "x")])
def test_a_rule_with_a_value_out_of_bounds_is_refused(key: str, value: object) -> None:
    assert list(rule_faults(**{key: value})) == [key]


def test_exactly_one_of_host_and_hosts_is_given() -> None:
    assert list(faults_of("bridges: [{id: a}]")) == ["bridges[0].host"]
    assert list(bridge_faults(hosts=[{"host": "h"}])) == ["bridges[0].hosts"]
    assert list(faults_of("bridges: [{id: a, hosts: []}]")) == ["bridges[0].hosts"]
    assert list(faults_of("bridges: [{id: a, hosts: [{host: h}], port: 1}]")) == ["bridges[0].port"]


def test_bridge_ids_are_unique() -> None:
    assert faults_of("bridges: [{id: a, host: h}, {id: b, host: h}, {id: a, host: h}]") == {
        "bridges[2].id": "already the id of bridges[0]"
    }


def test_a_password_without_a_username_is_a_fault_only_on_3_1_1() -> None:
    assert list(bridge_faults(mqttVersion="3.1.1", password="p")) == ["bridges[0].password"]
    from_document({"bridges": [{"id": "a", "host": "h", "password": "p"}]})


@pytest.mark.parametrize(
    ("rules", "version"),
    [
        ([{"filters": ["a/#"], "retained": "level"}], 5),
        ([{"filters": ["a/#"], "retained": "level", "preserveRetain": True}], "3.1.1"),
        ([{"filters": ["$share/g/a"], "retained": "level", "preserveRetain": True}], 5),
        ([{"filters": ["$share/g/a"], "retained": "first"}], 5),
    ],
)
def test_retained_messages_are_kept_level_only_where_that_can_be(rules: list[dict[str, object]], version: object) -> None:
    found = bridge_faults(mqttVersion=version, remoteSubscriptions=rules)
    assert list(found) == ["bridges[0].remoteSubscriptions[0].retained"]


def test_routes_whose_filters_overlap_want_the_same_of_what_is_stored() -> None:
    rules = [{"filters": ["a/#"], "retained": "first"}, {"filters": ["b"]}, {"filters": ["+/x"], "destination": "d"}]
    assert list(bridge_faults(remoteSubscriptions=rules)) == ["bridges[0].remoteSubscriptions[2].retained"]
    accepts(remoteSubscriptions=[*rules[:2], {**rules[2], "filters": ["c/x"]}])


@pytest.mark.parametrize("filters", [5, "a/#", {"a": 1}, [5, None], None])
def test_filters_of_no_shape_are_told_where_they_are(filters: object) -> None:
    found = bridge_faults(mqttVersion="3.1.1", remoteSubscriptions=[{"filters": filters, "retained": "first"}])
    assert all(place.startswith("bridges[0].remoteSubscriptions[0].filters") for place in found)


def test_a_secret_is_written_down_or_in_a_file_but_not_both() -> None:
    assert list(bridge_faults(password="p", passwordFile="p.txt")) == ["bridges[0].passwordFile"]
    assert list(bridge_faults(username="u", usernameFile="u.txt")) == ["bridges[0].usernameFile"]
    assert list(bridge_faults(mqttVersion="3.1.1", passwordFile="p.txt")) == ["bridges[0].passwordFile"]
    accepts(mqttVersion="3.1.1", usernameFile="u.txt", passwordFile="p.txt")


def test_user_properties_of_connect_need_mqtt_5() -> None:
    given = [{"key": "site", "value": "7"}]
    assert list(bridge_faults(mqttVersion="3.1.1", connectUserProperties=given)) == ["bridges[0].connectUserProperties"]
    accepts(connectUserProperties=given)


@pytest.mark.parametrize(
    ("tls", "where"),
    [
        ({"certFile": "c.pem"}, ""),
        ({"keyFile": "k.pem"}, ""),
        ({"certFile": "c.p12", "keyFile": "k.pem"}, ".keyFile"),
        ({"keyPassword": "x"}, ".keyPassword"),
        ({"caFile": "ca.pem", "caPassword": "x"}, ".caPassword"),
        ({"protocols": ["TLSv1.1"]}, ".protocols[0]"),
        ({"handshakeTimeout": 0}, ".handshakeTimeout"),
        ({"cipherSuites": ["ROT13"]}, ".cipherSuites[0]"),
        ({"cipherSuites": ["TLS_AES_128_GCM_SHA256"]}, ".cipherSuites[0]"),
    ],
)
def test_tls_that_cannot_be_meant_is_refused(tls: dict[str, object], where: str) -> None:
    assert list(bridge_faults(bridgeTls=tls)) == [f"bridges[0].bridgeTls{where}"]


def test_tls_that_can_be_meant_is_accepted() -> None:
    for tls in (
        {},
        {"certFile": "c.pem", "keyFile": "k.pem", "keyPassword": "x"},
        {"certFile": "c.PFX", "keyPassword": "x", "caFile": "ca.p12", "caPassword": "y"},
        {"cipherSuites": ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]},
        {"protocols": ["TLSv1.2", "TLSv1.3"], "handshakeTimeout": 0.5},
    ):
        accepts(bridgeTls=tls)


@pytest.mark.parametrize("bad", ["p:3128", "https://p:3128", "http://p", "http://:1", "http://p:1/x", "http://p:1?x", "http://p:0"])
def test_a_proxy_is_an_http_address_with_a_port(bad: str) -> None:
    assert list(bridge_faults(proxy=bad)) == ["bridges[0].proxy"]
    accepts(proxy="http://user:pass%20word@[::1]:3128/")


@pytest.mark.parametrize("bad", [{"path": "mqtt"}, {"path": "/a b"}, {"path": "/a\r\nX: y"}, {"subProtocol": "a,b"}])
def test_a_websocket_is_asked_for_with_a_path_and_a_token(bad: dict[str, str]) -> None:
    [key] = bad
    assert list(bridge_faults(bridgeWebsocketConfig=bad)) == [f"bridges[0].bridgeWebsocketConfig.{key}"]
    accepts(bridgeWebsocketConfig={"path": "/", "subProtocol": "mqttv3.1"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "plant.example.com"])
def test_anonymous_off_loopback_must_be_written_down(host: str) -> None:
    listeners = [{"host": host, "port": 1883}]
    with pytest.raises(SettingsError, match=r"listeners\[0\]\.host.*allowAnonymous"):
        from_document({"listeners": listeners})
    from_document({"listeners": listeners, "auth": {"allowAnonymous": True}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_anonymous_on_loopback_needs_no_word(host: str) -> None:
    from_document({"listeners": [{"host": host}]})


def test_two_doors_on_one_address_are_refused() -> None:
    text = "listeners: [{port: 1883}, {host: '::1', port: 1883}, {}, {port: 0}, {port: 0}, {port: 8080}]"
    assert list(faults_of(text)) == ["listeners[2].port", "console.port"]


def test_what_belongs_to_another_type_of_listener_is_refused() -> None:
    assert list(faults_of("listeners: [{tls: {certFile: c, keyFile: k}}]")) == ["listeners[0].tls"]
    assert list(faults_of("listeners: [{path: /mqtt}]")) == ["listeners[0].path"]
    assert list(faults_of("listeners: [{type: tls}]")) == ["listeners[0].type", "listeners[0].tls"][::-1]


def test_a_file_that_cannot_be_read_is_one_fault(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "nowhere.yaml", {})
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(tmp_path, {})
    (tmp_path / "latin.yaml").write_bytes(b"node: a\nnode2: \xe9\n")
    with pytest.raises(SettingsError, match=r"latin\.yaml \(line 2\): not UTF-8 text"):
        load(tmp_path / "latin.yaml", {})
    (tmp_path / "large.yaml").write_bytes(b"#" * (5 * 2**20))
    with pytest.raises(SettingsError, match="larger than"):
        load(tmp_path / "large.yaml", {})


def test_a_good_file_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("node: ${ENV:WHO}\nconsole: {port: '${ENV:PORT}'}\n")
    settings = load(tmp_path / "node.yaml", {"WHO": "plant-7", "PORT": "9000"})
    assert (settings.node, settings.console.port) == ("plant-7", 9000)


def test_flight_within_reach_of_others_needs_a_token_and_tls() -> None:
    with pytest.raises(SettingsError) as caught:
        from_document({"pipeline": {"flight": {"host": "0.0.0.0"}}})
    assert [path for path, _ in caught.value.faults] == ["pipeline.flight.token", "pipeline.flight.tls"]
    safe = {"token": "t", "tls": {"certFile": "c.pem", "keyFile": "k.pem"}}
    assert from_document({"pipeline": {"flight": {"host": "0.0.0.0", **safe}}}).pipeline.flight.tls is not None
    assert from_document({"pipeline": {"flight": {"host": "127.0.0.2"}}}).pipeline.flight.token is None


@pytest.mark.parametrize("token", ["", "with space", "ümlaut", "line\nbreak"])
def test_a_token_is_what_a_header_can_carry(token: str) -> None:
    with pytest.raises(SettingsError, match="printable ASCII"):
        from_document({"pipeline": {"flight": {"token": token}}})


def test_what_is_retained_in_ram_has_a_bound_in_bytes() -> None:
    assert list(faults_of("journal: {retain: {hours: 2}}")) == ["journal.retain.bytes"]
    assert parse("journal: {retain: {hours: 0.5, bytes: 1MiB}}", {}).journal.retain.hours == 0.5
    assert parse("{persistence: {mode: file-native}, journal: {retain: {hours: 2}}}", {}).journal.retain.bytes == 0
    assert list(faults_of("journal: {retain: {hours: -1, bytes: -1}}")) == ["journal.retain.hours", "journal.retain.bytes"]


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]", "spark://h:7077", "k8s://https://h:443", "yarn"])
def test_any_master_of_spark_is_known(master: str) -> None:
    assert from_document({"pipeline": {"master": master}}).pipeline.master == master


@pytest.mark.parametrize("master", ["", "local[0]", "local[]", "spark", "http://h", "external"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(SettingsError, match=r"pipeline\.master: .*spark://host:port"):
        from_document({"pipeline": {"master": master}})


def pipeline_faults(**pipeline: object) -> list[str]:
    try:
        from_document({"pipeline": pipeline})
    except SettingsError as error:
        return [path for path, _ in error.faults]
    return []


def test_executors_elsewhere_must_know_where_the_node_is() -> None:
    safe = {"token": "t", "tls": {"certFile": "c", "keyFile": "k"}}
    everywhere = {"host": "0.0.0.0", **safe}
    assert pipeline_faults(master="spark://h:7077", flight=everywhere) == ["pipeline.flight.advertise"]
    assert pipeline_faults(master="spark://h:7077", flight={**everywhere, "advertise": "plant-7:8815"}) == []
    assert pipeline_faults(master="local[2]", flight=everywhere) == []


def test_a_node_whose_pipeline_is_elsewhere_tells_it_a_port_and_a_token() -> None:
    assert pipeline_faults(external=True) == ["pipeline.flight.token", "pipeline.flight.port"]
    assert pipeline_faults(external=True, flight={"port": 8815, "token": "t"}) == []


def test_the_nodes_of_a_pipeline_are_reached_with_a_token_and_under_tls() -> None:
    assert pipeline_faults(nodes=[{"address": "127.0.0.1:8815", "token": "t"}]) == []
    assert pipeline_faults(nodes=[{"address": "plant:8815", "token": "t"}]) == ["pipeline.nodes[0].caFile"]
    assert pipeline_faults(nodes=[{"address": "plant:8815", "token": "t", "caFile": "ca.pem"}]) == []
    assert pipeline_faults(nodes=[{"address": "grpc+tls://plant:8815", "token": "t"}]) == []
    assert pipeline_faults(nodes=[{"address": "127.0.0.1:8815"}]) == ["pipeline.nodes[0].token"]
    assert pipeline_faults(nodes=[{"address": "127.0.0.1", "token": "t"}]) == ["pipeline.nodes[0].address"]
    twice = {"address": "127.0.0.1:8815", "token": "t"}
    assert pipeline_faults(nodes=[twice, {**twice, "address": "grpc://127.0.0.1:8815"}]) == ["pipeline.nodes[1].address"]
    assert pipeline_faults(nodes=[{**twice, "certFile": "c.pem"}]) == ["pipeline.nodes[0]"]


def test_a_token_that_anybody_could_show_is_refused() -> None:
    for token in ('""', '"two words"', '"${ENV:EMPTY}"'):
        assert list(faults_of(f"console: {{token: {token}}}", EMPTY="")) == ["console.token"]


def test_nobody_but_the_count_itself_writes_into_the_hop_count() -> None:
    count = "hmq-bridge-hop-count"
    assert list(bridge_faults(messageIdProperty=count)) == ["bridges[0].messageIdProperty"]
    assert list(rule_faults(customUserProperties=[{"key": count, "value": "0"}])) == ["customUserProperties[0].key"]


def test_the_words_of_a_fault_fit_what_it_is_about() -> None:
    assert bridge_faults(clientId="") == {"bridges[0].clientId": "must have at least 1 character"}
    assert rule_faults(rewrite=[{"pattern": "a"}] * 17) == {"rewrite": "must have at most 16 entries"}
    pull = bridge_faults(remoteSubscriptions=[{"filters": ["a"], "excludes": ["b"]}])
    assert pull == {"bridges[0].remoteSubscriptions[0].excludes": "unknown key here; it belongs to another part"}


@pytest.mark.parametrize("host", ["mqtt://example.com", "example.com:1883", "example.com/mqtt", "[::1]", "user@example.com"])
def test_a_remote_host_is_a_name_or_an_address_and_nothing_else(host: str) -> None:
    assert list(bridge_faults(host=host)) == ["bridges[0].host"]
    assert list(faults_of(f"bridges: [{{id: a, hosts: [{{host: '{host}'}}]}}]")) == ["bridges[0].hosts[0].host"]


@pytest.mark.parametrize("host", ["broker", "my_broker.example.", "10.0.0.1", "::1", "fe80::1%eth0", "m\u00fcnchen.example"])
def test_names_and_addresses_of_every_kind_are_remote_hosts(host: str) -> None:
    accepts(host=host)
