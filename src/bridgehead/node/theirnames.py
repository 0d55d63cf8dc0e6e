"""TLS and WebSocket of a bridge by the names of HiveMQ Edge's API: it shows these, and understands ours as well.

What only we have (``keyFile``) stands beside what both have. Of a store they have a type, which the name of the file tells
here; and two passwords, which are one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bridgehead.settings.overlay import Raw

SECRET: Final = "********"
"""Stands for a secret in an answer."""

TLS: Final = "tlsConfiguration"

_PARTS: Final = {"websocketConfiguration": "bridgeWebsocketConfig", TLS: "bridgeTls"}
"""Their names of parts, and ours."""

_KEYS: Final = {
    "serverPath": "path",
    "truststorePath": "caFile",
    "truststorePassword": "caPassword",
    "keystorePath": "certFile",
    "keystorePassword": "keyPassword",
}
"""Their names of what is in them, and ours; all others are the same."""

_THEIR_KEYS: Final = {ours: theirs for theirs, ours in _KEYS.items()}
_STORES: Final = ("truststore", "keystore")
_PKCS12: Final = (".p12", ".pfx")


def with_their_names(bridge: Raw) -> Raw:
    """What is shown of a bridge."""
    names = {ours: theirs for theirs, ours in _PARTS.items()}
    return {names.get(key, key): _shown(names[key], value) if key in names else value for key, value in bridge.items()}


def _shown(name: str, part: Raw | None) -> Raw | None:
    if part is None:
        return None
    found = {"enabled": True, **{_THEIR_KEYS.get(key, key): value for key, value in part.items()}}
    if name == TLS:
        found |= {f"{store}Type": "PKCS12" if _is_pkcs12(found[f"{store}Path"]) else None for store in _STORES}
        found["privateKeyPassword"] = found["keystorePassword"]
    return found


def with_our_names(body: Mapping[str, Any]) -> tuple[Raw, list[tuple[str, str]]]:
    """What was sent, as the file would say it, and the faults of what it cannot say."""
    document = {key: value for key, value in body.items() if key not in _PARTS}
    faults: list[tuple[str, str]] = []
    for theirs, ours in _PARTS.items():
        part = body.get(theirs)
        if isinstance(part, dict) and part.get("enabled", True):
            said = {key: value for key, value in part.items() if key != "enabled" and value not in (None, "")}
            faults += [(f"{theirs}.{key}", text) for key, text in _without_stores(said)]
            part = {_KEYS.get(key, key): value for key, value in said.items()}
        elif isinstance(part, dict):
            continue
        if part is not None:
            if document.get(ours) not in (None, part):
                faults.append((ours, f"says something else than {theirs}, its other name: give one of them"))
            document[ours] = part  # whatever it is, whoever checks it says what is wrong
    return document, faults


def _without_stores(said: Raw) -> Iterator[tuple[str, str]]:
    """Take out what belongs to stores of Java; yields what of it cannot be."""
    for store in _STORES:
        kind, path = said.pop(f"{store}Type", None), said.get(f"{store}Path")
        if kind not in (None, "PKCS12"):
            yield f"{store}Type", "must be PKCS12, or none for PEM; keytool -importkeystore -deststoretype PKCS12 makes one"
        elif kind is not None and isinstance(path, str) and not _is_pkcs12(path):
            yield f"{store}Type", f"the name of a PKCS12 file must end in {' or '.join(_PKCS12)}"
    private = said.pop("privateKeyPassword", None)
    if private is not None and said.setdefault("keystorePassword", private) != private and private != SECRET:
        yield "privateKeyPassword", "a file has one password here: keystorePassword"


def place_in(body: Mapping[str, Any], place: str) -> str:
    """A place of ours, by the names that were used in the body."""
    ours, dot, inside = place.partition(".")
    used = next((theirs for theirs, name in _PARTS.items() if name == ours and theirs in body), None)
    if used is None:
        return place
    return used + dot + re.sub(r"^\w+", lambda key: _THEIR_KEYS.get(key[0], key[0]), inside)


def _is_pkcs12(file: object) -> bool:
    return isinstance(file, str) and file.lower().endswith(_PKCS12)
