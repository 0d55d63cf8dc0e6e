"""Whom we trust in TLS and who we are: from files to a context, made anew when a file has changed."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.errors import SettingsError

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
PKCS12: Final = (".p12", ".pfx")
"""How the name of a file ends that holds certificates, and maybe a key, in this one form; all others are PEM."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What a context is made of."""

    ca_file: Path | None = None  # None = the system's trust store
    ca_password: bytes | None = None  # of a PKCS12 file
    cert_file: Path | None = None
    key_file: Path | None = None  # None = in cert_file
    key_password: bytes | None = None  # of the key, or of the PKCS12 file it is in
    verify_hostname: bool = True
    protocols: tuple[str, ...] = ()  # of PROTOCOLS; empty = all of them
    cipher_suites: tuple[str, ...] = ()  # of TLS 1.2, by OpenSSL's names; empty = the library's choice
    handshake_timeout: float = 10.0

    @property
    def files(self) -> list[Path]:
        return [file for file in (self.ca_file, self.cert_file, self.key_file) if file is not None]


class Contexts:
    """The context of a trust for one connection after the other."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self._context: ssl.SSLContext | None = None
        self._made_of: list[tuple[int, int, int]] = []

    def current(self) -> ssl.SSLContext:
        """Made of the files as they are now; raises SettingsError where one cannot be used."""
        made_of = [_state_of(file) for file in self.trust.files]
        if self._context is None or made_of != self._made_of:
            self._context = context_of(self.trust)
            self._made_of = made_of
        return self._context


def context_of(trust: Trust) -> ssl.SSLContext:
    """A client's context; raises SettingsError with every file that cannot be used."""
    faults: list[tuple[str, str]] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that no write ever has to wait for a read
    context.check_hostname = trust.verify_hostname
    versions = [PROTOCOLS[name] for name in trust.protocols] or list(PROTOCOLS.values())
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if trust.cipher_suites:
        context.set_ciphers(":".join(trust.cipher_suites))
    try:
        if trust.ca_file is None:
            context.load_default_certs()
        elif _is_pkcs12(trust.ca_file):
            context.load_verify_locations(cadata=_authorities(trust.ca_file, trust.ca_password))
        else:
            context.load_verify_locations(trust.ca_file)
    except (OSError, ValueError) as error:
        faults.append(("caFile", _unusable(error, "")))
    try:
        if trust.cert_file is not None and _is_pkcs12(trust.cert_file):
            with _as_pem(trust.cert_file, trust.key_password) as (file, password):
                context.load_cert_chain(file, password=password)
        elif trust.cert_file is not None:
            context.load_cert_chain(trust.cert_file, trust.key_file, trust.key_password or b"")
    except (OSError, ValueError) as error:
        faults.append(("certFile", _locked(trust) or _unusable(error, "with its key ")))
    if faults:
        raise SettingsError(faults)
    return context


def _unusable(error: Exception, how: str) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
    return f"cannot be used {how}({(reason or str(error)).lower().replace('_', ' ')})"


def _locked(trust: Trust) -> str | None:
    """Whether it is the password of the key, of which the library says nothing; PKCS12 files say it themselves."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    file = trust.key_file or trust.cert_file
    try:
        if file is None or _is_pkcs12(file) or b"ENCRYPTED" not in file.read_bytes():
            return None
        load_pem_private_key(file.read_bytes(), trust.key_password)
    except TypeError:
        return "cannot be used: its key needs a password (keyPassword)"
    except (OSError, ValueError):
        return "cannot be used: keyPassword does not open its key"
    return None


def _state_of(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _is_pkcs12(file: Path) -> bool:
    return file.suffix.lower() in PKCS12


def _authorities(file: Path, password: bytes | None) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # only for those who use it

    found = pkcs12.load_pkcs12(file.read_bytes(), password)
    certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    if not certificates:
        raise ValueError("it holds no certificate")
    return b"".join(each.public_bytes(Encoding.DER) for each in certificates)


@contextmanager
def _as_pem(file: Path, password: bytes | None) -> Iterator[tuple[str, bytes]]:
    """The certificates and the key of a PKCS12 file in the only form that Python's TLS takes: a file.

    It is gone at once, and the key in it is under a password that only this call knows.
    """
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, pkcs12

    found = pkcs12.load_pkcs12(file.read_bytes(), password)
    if found.key is None or found.cert is None:
        raise ValueError("it holds no key with its certificate")
    secret = secrets.token_hex(32).encode()
    parts = [found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret))]
    parts += [each.certificate.public_bytes(Encoding.PEM) for each in (found.cert, *found.additional_certs)]
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as pem:
            pem.write(b"".join(parts))
        yield name, secret
    finally:
        os.unlink(name)
