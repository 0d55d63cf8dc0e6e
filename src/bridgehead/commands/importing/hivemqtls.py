"""TLS of a bridge of HiveMQ Edge. PKCS12 stores can be used as they are, Java's own (JKS) must be converted first."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.taking import Taking
from bridgehead.commands.importing.values import as_number, as_yes
from bridgehead.commands.importing.xmltree import Element

PKCS12: Final = (".p12", ".pfx")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


def bridge_tls(element: Element, key: str, report: Report) -> dict[str, Any] | None:
    """Our bridgeTls; None where TLS is off."""
    enabled = element.one("enabled")
    if enabled is None or as_yes(enabled.text, enabled.place) is False:
        report.differ(element.place, "is not enabled: what else it says is left out")
        element.skip()
        return None
    report.map(enabled.place, key)
    found: dict[str, Any] = {}
    trust, keys = element.one("truststore"), element.one("keystore")
    if trust is not None:
        _store(trust, "caFile", "caPassword", found, key, report)
    else:
        report.differ(element.place, "without a truststore Java's own authorities are trusted there, those of the system here")
    if keys is not None:
        _store(keys, "certFile", "keyPassword", found, key, report)
        _key_password(keys, key, report)
    _protocols(element, found, key, report)
    suites = element.one("cipher-suites")
    if suites is not None:
        found["cipherSuites"] = [each.text for each in suites.all("cipher-suite")]
        report.map(suites.place, f"{key}.cipherSuites")
    taking = Taking(element, found, key, report)
    taking("verify-hostname", "verifyHostname", as_yes)
    taking("handshake-timeout", "handshakeTimeout", as_number)
    return found


def _store(element: Element, file_key: str, password_key: str, found: dict[str, Any], key: str, report: Report) -> None:
    path = element.one("path")
    if path is None:
        return
    place = PurePosixPath(path.text)
    if place.suffix.lower() not in PKCS12:
        new = place.with_suffix(".p12")
        command = f"keytool -importkeystore -srckeystore {place} -destkeystore {new} -deststoretype PKCS12"
        report.differ(path.place, f"a Java store (JKS) cannot be read here; convert it, and the new file is used: {command}")
        place = new
    found[file_key] = str(place)
    report.map(path.place, f"{key}.{file_key}")
    if not place.is_absolute() and "${" not in path.text:
        report.differ(path.place, "is looked for beside our configuration file")
    Taking(element, found, key, report)("password", password_key)


def _key_password(keys: Element, key: str, report: Report) -> None:
    password, private = keys.one("password"), keys.one("private-key-password")
    if private is None:
        return
    if password is not None and private.text != password.text:
        report.differ(private.place, "a PKCS12 file has one password here: that of the store is used")
    else:
        report.map(private.place, f"{key}.keyPassword")


def _protocols(element: Element, found: dict[str, Any], key: str, report: Report) -> None:
    protocols = element.one("protocols")
    if protocols is None:
        return
    named = [each.text for each in protocols.all("protocol")]
    found["protocols"] = [each for each in PROTOCOLS if each in named]
    report.map(protocols.place, f"{key}.protocols")
    for old in (each for each in named if each not in PROTOCOLS):
        report.miss(protocols.place, f"{old} is not safe and not used here")
