"""A bridge: one connection to a remote broker, and the routes that use it."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bridgehead.settings.part import (
    UINT32_MAX,
    Count,
    FilePath,
    Host,
    MqttName,
    MqttSecret,
    MqttText,
    Part,
    Port,
    Positive,
    PropertyName,
    Seconds,
    Whole,
)
from bridgehead.settings.route import LocalSubscription, RemoteSubscription, Route, UserProperty, route_of
from bridgehead.settings.tls import BridgeTls

USUAL_PORT = 1883
MOST_A_SECOND = 1_000_000_000  # beyond any machine: a larger number is no limit


def _mqtt_version(value: object) -> object:
    """An environment variable can only say ``"5"``."""
    return 5 if value == "5" and isinstance(value, str) else value


def _remote_host(value: str) -> str:
    if re.fullmatch(r"[\w.-]+", value) is None:
        try:
            ip_address(value)
        except ValueError:
            raise ValueError("must be a host name or an IP address, without scheme, port or path") from None
    return value


RemoteName = Annotated[Host, AfterValidator(_remote_host)]


def _proxy(value: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(value.get_secret_value())
        good = parts.scheme == "http" and parts.hostname and parts.port and parts.path in ("", "/")
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise ValueError("must be http://host:port or http://user:password@host:port")
    return value


class BridgeWebsocketConfig(Part):
    """MQTT inside WebSocket towards the remote broker."""

    path: Annotated[str, Field(pattern=r"^/[!-~]*$")] = "/mqtt"
    sub_protocol: Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")] = "mqtt"


class RemoteHost(Part):
    """One address of the remote broker."""

    host: RemoteName
    port: Port = USUAL_PORT


class Bridge(Part):
    """Everything that is known about one remote broker."""

    id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=500)]
    host: RemoteName | None = None  # exactly one of host and hosts is given
    hosts: Annotated[tuple[RemoteHost, ...], Field(min_length=1)] | None = None
    port: Port = USUAL_PORT  # of host
    client_id: MqttName = Field(default_factory=lambda data: str(data["id"]))
    mqtt_version: Annotated[Literal[5, "3.1.1"], BeforeValidator(_mqtt_version)] = 5
    keep_alive: Annotated[Whole, Field(ge=0, le=65_535)] = 60  # seconds; 0 = none
    session_expiry: Annotated[Whole, Field(ge=0, le=UINT32_MAX)] = 3600  # seconds; the exactly-once window
    clean_start: bool = False
    username: MqttText | None = None
    username_file: FilePath | None = None  # instead of username; read at each connect
    password: MqttSecret | None = None
    password_file: FilePath | None = None  # instead of password; read at each connect
    connect_user_properties: tuple[UserProperty, ...] = ()  # of CONNECT; MQTT 5
    bridge_tls: BridgeTls | None = None
    bridge_websocket_config: BridgeWebsocketConfig | None = None
    proxy: Annotated[SecretStr, AfterValidator(_proxy)] | None = None  # of HTTP CONNECT; may carry credentials
    persist: bool = True
    loop_prevention_enabled: bool = True
    loop_prevention_hop_count: Annotated[Whole, Field(ge=1, le=100)] = 1
    message_id_property: PropertyName | None = None  # the user property that carries a message's id; None = no id
    no_local: bool = True
    join_filters: bool = True  # MQTT 3.1.1: pull filters that overlap in part are subscribed to as one that covers them
    watchdog: Seconds | None = None  # None = max(30, 1.5 x keepAlive)
    tier2_limit: Count = Field(default=10_000, alias="tier2Limit")  # messages of each route
    rate_limit: Annotated[Positive, Field(le=MOST_A_SECOND)] | None = None  # messages/s towards the remote
    live_first: bool = False  # what comes while connected goes before what waited
    queue_while_stopped: bool = True  # else what is published while the bridge is stopped is not kept for it
    local_subscriptions: tuple[LocalSubscription, ...] = ()
    remote_subscriptions: tuple[RemoteSubscription, ...] = ()

    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where the remote broker may be reached, in the order to try."""
        if self.hosts is not None:
            return tuple((each.host, each.port) for each in self.hosts)
        return ((self.host, self.port),) if self.host is not None else ()

    def routes(self) -> list[Route]:
        """The routes of this bridge, push before pull, each in the order of the file."""
        return [route_of(self.id, rule) for rule in (*self.local_subscriptions, *self.remote_subscriptions)]
