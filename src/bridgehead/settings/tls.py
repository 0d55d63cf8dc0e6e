"""TLS, at our door and towards a remote broker."""

from __future__ import annotations

from bridgehead.settings.part import FilePath, Part, Seconds


class ListenerTls(Part):
    """The certificate a listener shows, and whose clients it trusts."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None  # None = clients need no certificate


class BridgeTls(Part):
    """How a bridge proves who the remote is, and who it is itself."""

    ca_file: FilePath | None = None  # None = the system's trust store
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    verify_hostname: bool = True
    handshake_timeout: Seconds = 10
    protocols: tuple[str, ...] = ()  # empty = the library's choice
    cipher_suites: tuple[str, ...] = ()  # empty = the library's choice
