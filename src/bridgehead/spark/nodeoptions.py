"""The options of ``format("mqtt")`` with ``node``: a running node, by the address of its Flight service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from bridgehead.clock import moment_us
from bridgehead.errors import SettingsError
from bridgehead.pipeline.access import PLAIN, TLS, Access
from bridgehead.settings.part import INT64_MAX, Count, FilePath, MqttName, Part, Seconds, Size, Whole
from bridgehead.spark.options import Messages

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

Place = str | int | dict[str, int]
"""earliest, latest, a moment in ISO 8601, an offset, or an offset for each log."""


def _address(text: str) -> str:
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in (PLAIN, TLS) or not parts.hostname or not port or parts.path or parts.query:
        raise ValueError(f"must be {PLAIN}://host:port or {TLS}://host:port")
    return text


def _place(value: object) -> object:
    if not isinstance(value, str) or value in (EARLIEST, LATEST):
        return value
    if re.fullmatch(r"\d+", value):
        return int(value)
    if value.lstrip().startswith("{"):
        try:
            found: Any = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"is not valid JSON: {error}") from None
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found.values()):
            raise ValueError("must have an offset for each log")
        return found
    try:
        moment_us(value)
    except ValueError:
        raise ValueError("must be earliest, latest, an offset, offsets by log as JSON, or a moment in ISO 8601") from None
    return value


Offsets = Annotated[Place, BeforeValidator(_place)]


class Node(Part):
    """How to reach a node, and how to prove that we may."""

    node: Annotated[str, AfterValidator(_address)]
    token: SecretStr
    ca_file: FilePath | None = None  # None = the system's trust store
    cert_file: FilePath | None = None
    key_file: FilePath | None = None

    @model_validator(mode="after")
    def _certificates(self) -> Node:
        given = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name) is not None]
        if given and not self.node.startswith(f"{TLS}://"):
            raise ValueError(f"caFile, certFile and keyFile are for {TLS}://")
        if (self.key_file is None) != (self.cert_file is None):
            raise ValueError("certFile and keyFile belong together")
        return self

    def access(self) -> Access:
        """Files are read here, beside the driver: tasks on other machines need none."""
        faults: list[tuple[str, str]] = []

        def text(name: str, path: Path | None) -> str | None:
            try:
                return None if path is None else path.read_text()
            except (OSError, UnicodeDecodeError) as error:
                faults.append((name, f"cannot be read: {error}"))
                return None

        pems = {name: text(f"{name}File", getattr(self, f"{name}_file")) for name in ("ca", "cert", "key")}
        if faults:
            raise SettingsError(faults)
        return Access(self.node, self.token.get_secret_value(), **pems)


class NodeSink(Node, Messages):
    """What a writer may be told."""

    client_id: MqttName | None = None  # whose the messages are, for those who read the journal
    txn_app_id: MqttName | None = None  # of a batch write: with the same name and a number that is not above the last one it
    txn_version: Annotated[Whole, Field(ge=0, le=INT64_MAX)] | None = None  # was done before
    give_up_after: Seconds = 120.0  # without room in the node

    @model_validator(mode="after")
    def _both_or_none(self) -> NodeSink:
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise ValueError("txnAppId and txnVersion belong together")
        return self


class NodeSource(Node):
    """What a reader may be told."""

    log: str | None = None
    route: str | None = None
    bridge: str | None = None
    starting_offsets: Offsets = EARLIEST
    ending_offsets: Offsets = LATEST  # of a batch read
    max_rows_per_trigger: Count = 200_000
    max_bytes_per_trigger: Size = 256 << 20
    partitions: Annotated[Whole, Field(ge=1, le=10_000)] | None = None  # None = as many as are worth it
    fail_on_data_loss: bool = True

    @model_validator(mode="after")
    def _one_choice(self) -> NodeSource:
        if sum(each is not None for each in (self.log, self.route, self.bridge)) > 1:
            raise ValueError("give one of log, route and bridge, or none for everything")
        return self

    @property
    def wanted(self) -> dict[str, str]:
        chosen = {"log": self.log, "route": self.route, "bridge": self.bridge}
        return {name: value for name, value in chosen.items() if value is not None}
