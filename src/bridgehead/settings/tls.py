"""TLS, at our door and towards a remote broker."""

from __future__ import annotations

from typing import Literal

from pydantic import SecretStr

from bridgehead.settings.ciphers import CipherSuite
from bridgehead.settings.part import FilePath, Part, Seconds


class ListenerTls(Part):
    """The certificate a listener shows, and whose clients it trusts."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None  # None = clients need no certificate


class BridgeTls(Part):
    """How a bridge proves who the remote is, and who it is itself. Files are PEM, or PKCS12 by the name's end (.p12, .pfx)."""

    ca_file: FilePath | None = None  # None = the system's trust store
    ca_password: SecretStr | None = None  # of a PKCS12 caFile
    cert_file: FilePath | None = None
    key_file: FilePath | None = None  # none with a PKCS12 certFile, which holds it
    key_password: SecretStr | None = None  # of the key, or of a PKCS12 certFile
    verify_hostname: bool = True
    handshake_timeout: Seconds = 10
    protocols: tuple[Literal["TLSv1.2", "TLSv1.3"], ...] = ()  # empty = both
    cipher_suites: tuple[CipherSuite, ...] = ()  # of TLS 1.2; empty = the library's choice
