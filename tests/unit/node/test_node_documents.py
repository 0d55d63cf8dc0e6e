"""A bridge as the API gives and takes it: complete, and never with a secret."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.errors import SettingsError
from bridgehead.node.documents import SECRET, shown, taken
from bridgehead.settings.load import from_document

PLAIN = {"id": "b", "host": "example.com", "username": "u", "password": "open sesame"}


def as_shown(document: dict[str, Any], **filled_in: Any) -> dict[str, Any]:
    settings = from_document({"bridges": [{**document, **filled_in}]})
    return shown(settings.bridges[0], document)


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


def test_what_is_shown_can_be_sent_back_and_means_the_same() -> None:
    with_hosts = {"id": "b", "hosts": [{"host": "one"}], "localSubscriptions": [{"filters": ["a/#"]}]}
    for document in (PLAIN, with_hosts):
        back = taken({**as_shown(document), "status": {"connection": "CONNECTED"}}, document)
        assert from_document({"bridges": [back]}).bridges == from_document({"bridges": [document]}).bridges


def test_a_secret_that_comes_back_as_it_was_shown_stays_and_another_one_is_new() -> None:
    assert taken({**PLAIN, "password": SECRET}, PLAIN)["password"] == "open sesame"
    assert taken({**PLAIN, "password": "new"}, PLAIN)["password"] == "new"
    assert "password" not in taken({"id": "b", "host": "example.com"}, PLAIN)


def test_what_is_null_is_not_given() -> None:
    rule = {"filters": ["a/#"], "destination": None, "excludes": None, "customUserProperties": None}
    body = {**PLAIN, "remoteSubscriptions": None, "loopPreventionHopCount": 0, "localSubscriptions": [rule]}
    assert taken(body, None) == {**PLAIN, "localSubscriptions": [{"filters": ["a/#"]}]}


def test_the_names_of_the_original_are_understood() -> None:
    theirs = {"websocketConfiguration": {"enabled": True, "serverPath": "/x", "subProtocol": "mqtt"}}
    assert taken({**PLAIN, **theirs}, None)["bridgeWebsocketConfig"] == {"path": "/x", "subProtocol": "mqtt"}
    stores = {"keystorePath": "/k.p12", "keystorePassword": "p", "keystoreType": "PKCS12", "truststorePath": None}
    assert taken({**PLAIN, "tlsConfiguration": {"enabled": True, **stores}}, None)["bridgeTls"] == {
        "certFile": "/k.p12",
        "keyPassword": "p",
    }
    private = {**stores, "privateKeyPassword": "p", "truststorePassword": "", "truststoreType": ""}
    assert taken({**PLAIN, "tlsConfiguration": private}, None)["bridgeTls"] == {"certFile": "/k.p12", "keyPassword": "p"}
    off = {"tlsConfiguration": {"enabled": False}, "websocketConfiguration": {"enabled": False}}
    assert taken({**PLAIN, **off}, None) == PLAIN


def test_what_clients_of_the_original_leave_open_has_its_default() -> None:
    body = {**PLAIN, "clientId": "", "loopPreventionHopCount": 0, "localSubscriptions": [{"filters": ["a"], "destination": ""}]}
    (bridge,) = from_document({"bridges": [taken(body, None)]}).bridges
    assert (bridge.client_id, bridge.loop_prevention_hop_count) == ("b", 1)
    assert bridge.local_subscriptions[0].destination is None
    assert body["localSubscriptions"] == [{"filters": ["a"], "destination": ""}]


def test_what_stands_for_a_secret_is_none_where_no_secret_is_known() -> None:
    tls = {"certFile": "/k.p12", "keyPassword": SECRET}
    with pytest.raises(SettingsError) as caught:
        taken({**PLAIN, "password": SECRET, "bridgeTls": tls}, None)
    assert [place for place, _ in caught.value.faults] == ["password", "bridgeTls.keyPassword"]
