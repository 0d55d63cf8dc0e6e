"""A bridge as the API gives and takes it: complete, and never with a secret."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.node.documents import shown, taken
from bridgehead.node.theirnames import SECRET, place_in
from bridgehead.settings.load import from_document

PLAIN = {"id": "b", "host": "example.com", "username": "u", "password": "open sesame"}


def as_shown(document: dict[str, Any], **filled_in: Any) -> dict[str, Any]:
    settings = from_document({"bridges": [{**document, **filled_in}]})
    return shown(settings.bridges[0], document)


def told(body: dict[str, Any], present: dict[str, Any] | None) -> dict[str, Any]:
    """What is taken of a body without faults."""
    document, faults = taken(body, present)
    assert not faults
    return document


def faults_in(body: dict[str, Any], present: dict[str, Any] | None) -> list[str]:
    return [place for place, _ in taken(body, present)[1]]


def test_a_secret_is_never_shown_and_a_placeholder_always() -> None:
    assert as_shown(PLAIN)["password"] == SECRET
    assert as_shown({**PLAIN, "password": "${ENV:X}"}, password="open sesame")["password"] == "${ENV:X}"
    assert as_shown({**PLAIN, "password": "open ${ENV:X}"}, password="open sesame")["password"] == SECRET
    assert as_shown({"id": "b", "host": "example.com"})["password"] is None


def test_everything_that_was_left_out_is_shown_with_its_default() -> None:
    found = as_shown({**PLAIN, "localSubscriptions": [{"filters": ["a/#"], "maxQueueBytes": "1MiB"}]})
    assert (found["port"], found["keepAlive"], found["cleanStart"], found["sessionExpiry"]) == (1883, 60, False, 3600)
    (rule,) = found["localSubscriptions"]
    assert (rule["filters"], rule["maxQoS"], rule["maxQueueBytes"]) == (["a/#"], 2, "1MiB")


PEM = {"caFile": "/ca.pem", "certFile": "/c.pem", "keyFile": "/k.pem", "keyPassword": "hidden", "protocols": ["TLSv1.2"]}
STORES = {"caFile": "/ca.p12", "caPassword": "trusted", "certFile": "/k.p12", "keyPassword": "hidden"}


@pytest.mark.parametrize(
    "given",
    [
        {"host": "one"},
        {"hosts": [{"host": "one"}], "localSubscriptions": [{"filters": ["a/#"]}]},
        {"host": "one", "proxy": "http://me:secret@there:3128", "bridgeTls": {}, "bridgeWebsocketConfig": {}},
        {"host": "one", "bridgeTls": PEM, "bridgeWebsocketConfig": {"path": "/x", "subProtocol": "y"}},
        {"host": "one", "bridgeTls": STORES},
    ],
)
def test_what_is_shown_can_be_sent_back_with_one_change_and_means_the_same_but_for_that(given: dict[str, Any]) -> None:
    document = {"id": "b", "username": "u", "password": "open sesame", **given}
    body = as_shown(document)
    assert not any(secret in repr(body) for secret in ("sesame", "secret@", "hidden", "trusted"))
    back = told({**body, "keepAlive": 17, "status": {"connection": "CONNECTED"}}, document)
    assert from_document({"bridges": [back]}).bridges == from_document({"bridges": [{**document, "keepAlive": 17}]}).bridges


def test_tls_and_websocket_are_shown_by_the_names_of_the_original_with_our_options_beside_them() -> None:
    found = as_shown({**PLAIN, "bridgeTls": STORES, "bridgeWebsocketConfig": {"path": "/x"}})
    assert found["websocketConfiguration"] == {"enabled": True, "serverPath": "/x", "subProtocol": "mqtt"}
    assert found["tlsConfiguration"] == {
        "enabled": True,
        "truststorePath": "/ca.p12",
        "truststorePassword": SECRET,
        "truststoreType": "PKCS12",
        "keystorePath": "/k.p12",
        "keystorePassword": SECRET,
        "privateKeyPassword": SECRET,
        "keystoreType": "PKCS12",
        "keyFile": None,
        "protocols": [],
        "cipherSuites": [],
        "verifyHostname": True,
        "handshakeTimeout": 10.0,
    }
    assert not {"bridgeTls", "bridgeWebsocketConfig"} & found.keys()
    files = as_shown({**PLAIN, "bridgeTls": PEM})["tlsConfiguration"]
    assert (files["keystorePath"], files["keystoreType"], files["keyFile"]) == ("/c.pem", None, "/k.pem")
    without = as_shown(PLAIN)
    assert (without["tlsConfiguration"], without["websocketConfiguration"]) == (None, None)


def test_one_of_two_passwords_that_are_one_here_may_come_back_as_it_was_shown() -> None:
    document = {**PLAIN, "bridgeTls": STORES}
    body = as_shown(document)["tlsConfiguration"]

    def changed(**change: str) -> dict[str, Any]:
        return {**PLAIN, "tlsConfiguration": {**body, **change}}

    for password, change in {
        "hidden": {},
        "new": {"keystorePassword": "new"},
        "newer": {"keystorePassword": "newer", "privateKeyPassword": "newer"},
    }.items():
        assert told(changed(**change), document)["bridgeTls"]["keyPassword"] == password
    assert faults_in(changed(privateKeyPassword="new"), document) == ["tlsConfiguration.privateKeyPassword"]


@pytest.mark.parametrize(
    ("theirs", "place"),
    [
        ({"keystorePath": "/k.jks", "keystoreType": "JKS"}, "tlsConfiguration.keystoreType"),
        ({"truststorePath": "/ca.store", "truststoreType": "PKCS12"}, "tlsConfiguration.truststoreType"),
        ({"keystorePath": "/k.p12", "keystorePassword": SECRET}, "tlsConfiguration.keystorePassword"),
    ],
)
def test_what_cannot_be_used_of_the_original_is_told_by_its_name(theirs: dict[str, Any], place: str) -> None:
    assert faults_in({**PLAIN, "tlsConfiguration": theirs}, PLAIN) == [place]


def test_both_names_of_a_part_may_be_given_if_they_say_the_same() -> None:
    both = {"tlsConfiguration": {"enabled": True, "truststorePath": "/ca.pem"}, "bridgeTls": {"caFile": "/ca.pem"}}
    assert told({**PLAIN, **both}, None)["bridgeTls"] == {"caFile": "/ca.pem"}
    assert faults_in({**PLAIN, **both, "bridgeTls": {"caFile": "/other.pem"}}, None) == ["bridgeTls"]


def test_faults_are_told_by_the_names_that_were_used() -> None:
    theirs = {"tlsConfiguration": {"keystorePath": 5}, "websocketConfiguration": {}}
    assert place_in(theirs, "bridgeTls.certFile") == "tlsConfiguration.keystorePath"
    assert place_in(theirs, "bridgeTls.protocols[0]") == "tlsConfiguration.protocols[0]"
    assert place_in(theirs, "bridgeTls") == "tlsConfiguration"
    assert place_in(theirs, "bridgeWebsocketConfig.path") == "websocketConfiguration.serverPath"
    assert place_in({"bridgeTls": {}}, "bridgeTls.certFile") == "bridgeTls.certFile"
    assert place_in(theirs, "keepAlive") == "keepAlive"


def test_a_secret_that_comes_back_as_it_was_shown_stays_and_another_one_is_new() -> None:
    assert told({**PLAIN, "password": SECRET}, PLAIN)["password"] == "open sesame"
    assert told({**PLAIN, "password": "new"}, PLAIN)["password"] == "new"
    assert "password" not in told({"id": "b", "host": "example.com"}, PLAIN)


def test_what_is_null_is_not_given() -> None:
    rule = {"filters": ["a/#"], "destination": None, "excludes": None, "customUserProperties": None}
    body = {**PLAIN, "remoteSubscriptions": None, "loopPreventionHopCount": 0, "localSubscriptions": [rule]}
    assert told(body, None) == {**PLAIN, "localSubscriptions": [{"filters": ["a/#"]}]}


def test_the_names_of_the_original_are_understood() -> None:
    theirs = {"websocketConfiguration": {"enabled": True, "serverPath": "/x", "subProtocol": "mqtt"}}
    assert told({**PLAIN, **theirs}, None)["bridgeWebsocketConfig"] == {"path": "/x", "subProtocol": "mqtt"}
    stores = {"keystorePath": "/k.p12", "keystorePassword": "p", "keystoreType": "PKCS12", "truststorePath": None}
    assert told({**PLAIN, "tlsConfiguration": {"enabled": True, **stores}}, None)["bridgeTls"] == {
        "certFile": "/k.p12",
        "keyPassword": "p",
    }
    private = {**stores, "privateKeyPassword": "p", "truststorePassword": "", "truststoreType": ""}
    assert told({**PLAIN, "tlsConfiguration": private}, None)["bridgeTls"] == {"certFile": "/k.p12", "keyPassword": "p"}
    off = {"tlsConfiguration": {"enabled": False}, "websocketConfiguration": {"enabled": False}}
    assert told({**PLAIN, **off}, None) == PLAIN


def test_what_clients_of_the_original_leave_open_has_its_default() -> None:
    body = {**PLAIN, "clientId": "", "loopPreventionHopCount": 0, "localSubscriptions": [{"filters": ["a"], "destination": ""}]}
    (bridge,) = from_document({"bridges": [told(body, None)]}).bridges
    assert (bridge.client_id, bridge.loop_prevention_hop_count) == ("b", 1)
    assert bridge.local_subscriptions[0].destination is None
    assert body["localSubscriptions"] == [{"filters": ["a"], "destination": ""}]


def test_what_stands_for_a_secret_is_none_where_no_secret_is_known() -> None:
    tls = {"certFile": "/k.p12", "keyPassword": SECRET}
    assert faults_in({**PLAIN, "password": SECRET, "bridgeTls": tls}, None) == ["password", "bridgeTls.keyPassword"]
