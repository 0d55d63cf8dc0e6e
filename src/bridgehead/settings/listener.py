"""Where devices connect, and who may."""

from __future__ import annotations

import ipaddress
from typing import Any, Literal

from pydantic import Field

from bridgehead.settings.part import BindPort, Host, Part, Token
from bridgehead.settings.tls import ListenerTls

USUAL_PORTS = {"tcp": 1883, "tls": 8883, "ws": 8083}
CONSOLE_PORT = 8080


class Listener(Part):
    """One address that accepts MQTT connections."""

    type: Literal["tcp", "tls", "ws"] = "tcp"
    host: Host = "127.0.0.1"
    port: BindPort = Field(default_factory=lambda data: USUAL_PORTS[data["type"]])
    tls: ListenerTls | None = None
    path: str | None = Field(default=None, pattern=r"^/")  # ws only; None = /mqtt


class Auth(Part):
    """Who may connect. Anonymous is safe only on loopback; elsewhere it must be written down."""

    allow_anonymous: bool = True
    users: tuple[Any, ...] = Field(default=(), repr=False)
    permissions: tuple[Any, ...] = ()


class Console(Part):
    """Where the API and the console page listen."""

    host: Host = "127.0.0.1"
    port: BindPort = CONSOLE_PORT
    token: Token | None = None  # who shows it may change something from anywhere; None = only who is on this machine


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; a name we cannot judge counts as reachable."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
