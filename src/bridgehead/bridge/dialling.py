"""How a connection to a remote broker is made: the layers of its way, and the credentials of the moment.

Certificates and secrets are read when a connection is made: one that was replaced counts from the next connection on.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from bridgehead.errors import SettingsError
from bridgehead.link.layer import Layer
from bridgehead.link.link import Link
from bridgehead.link.tls import TlsLayer
from bridgehead.link.trust import Contexts, Trust
from bridgehead.link.tunnel import Proxy, Tunnel
from bridgehead.link.websocket import WebSocketLayer
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.tls import BridgeTls

MQTT_BYTES: Final = 65_535
"""What a username or a password can have in MQTT."""

CONNECT_WITHIN: Final = 10.0
"""Seconds for a TCP connection, and again for a proxy's answer and for that to a WebSocket upgrade."""


UNSENT_BYTES: Final = 128 * 1024
"""What the kernel takes and has not sent yet, about. What it has taken is lost in a cut at QoS 0: the rest is kept by us."""


def keep_little_unsent(transport: asyncio.BaseTransport) -> None:
    """Else it would take megabytes for a remote that does not read. What is on its way it sees no matter how."""
    wire = transport.get_extra_info("socket")
    if wire is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


@dataclass(frozen=True, slots=True)
class WebSocket:
    """What an upgrade asks for."""

    path: str
    sub_protocol: str


@dataclass(frozen=True, slots=True)
class Way:
    """What lies between us and the remote broker, besides TCP."""

    tls: Contexts | None = None
    websocket: WebSocket | None = None
    proxy: Proxy | None = None

    async def dial(self, link: Link, host: str, port: int) -> asyncio.Transport:
        """Begin a connection, whose end is the transport; the link is told when it stands, or why it does not.

        Raises OSError, TimeoutError, UnicodeError (a name that DNS cannot express) and SettingsError.
        """
        # The uppermost layer first: each is given what stands on it.
        top: Link | Layer = link
        if self.websocket is not None:
            path, sub_protocol = self.websocket.path, self.websocket.sub_protocol
            top = WebSocketLayer(top, host, port, path, sub_protocol, CONNECT_WITHIN)
        if self.tls is not None:
            trust = self.tls.trust
            identified = trust.cert_file is not None
            top = TlsLayer(top, self.tls.current(), host, trust.handshake_timeout, identified=identified)
        target = (host, port)
        if self.proxy is not None:
            top = Tunnel(top, self.proxy, host, port, CONNECT_WITHIN)
            target = (self.proxy.host, self.proxy.port)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_WITHIN):  # not wait_for: up to 3.11 it may swallow that we are to end
            transport, _ = await loop.create_connection(lambda: top, *target)
        keep_little_unsent(transport)
        return transport

    def reached(self, host: str, port: int) -> str:
        """Whom a TCP connection is made to."""
        return f"{host}:{port}" if self.proxy is None else f"the proxy {self.proxy.host}:{self.proxy.port}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are at the remote; a file's content counts as it is at the moment, without the line's end."""

    username: str | None = None
    password: bytes | None = None
    username_file: Path | None = None
    password_file: Path | None = None

    def now(self) -> tuple[str | None, bytes | None]:
        """Username and password; raises SettingsError where a file cannot be used."""
        username, password = self.username, self.password
        if self.username_file is not None:
            username = _text(_content("usernameFile", self.username_file))
        if self.password_file is not None:
            password = _content("passwordFile", self.password_file)
        return username, password


PLAIN: Final = Way()
NOBODY: Final = Credentials()


def credentials_of(bridge: Bridge) -> Credentials:
    return Credentials(bridge.username, _secret(bridge.password), bridge.username_file, bridge.password_file)


def way_of(bridge: Bridge) -> Way:
    """The way to the remote of a configured bridge."""
    tls, websocket = bridge.bridge_tls, bridge.bridge_websocket_config
    return Way(
        tls=None if tls is None else Contexts(_trust(tls)),
        websocket=None if websocket is None else WebSocket(websocket.path, websocket.sub_protocol),
        proxy=None if bridge.proxy is None else _proxy(bridge.proxy.get_secret_value()),
    )


def _trust(tls: BridgeTls) -> Trust:
    return Trust(
        ca_file=tls.ca_file,
        ca_password=_secret(tls.ca_password),
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        key_password=_secret(tls.key_password),
        verify_hostname=tls.verify_hostname,
        protocols=tls.protocols,
        cipher_suites=tls.cipher_suites,
        handshake_timeout=tls.handshake_timeout,
    )


def _proxy(url: str) -> Proxy:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    username, password = (None if each is None else unquote(each) for each in (parts.username, parts.password))
    return Proxy(parts.hostname, parts.port, username, password)


def _secret(value: SecretStr | None) -> bytes | None:
    return None if value is None else value.get_secret_value().encode()


def _content(key: str, file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError([(key, f"cannot be read: {error.strerror or error}")]) from None
    if len(content) > MQTT_BYTES:
        raise SettingsError([(key, f"holds more than {MQTT_BYTES} bytes")])
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise SettingsError([("usernameFile", "is not UTF-8 text")]) from None
