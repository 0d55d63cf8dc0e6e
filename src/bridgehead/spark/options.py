"""The options of ``format("mqtt")`` with ``url``: what they may say, and what is meant where they say nothing.

Spark hands names over in lower case; here each has the spelling of the documentation, and any other name is a fault.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from bridgehead.errors import SettingsError
from bridgehead.settings.fault import faults_of_model, path_text
from bridgehead.settings.part import (
    UINT32_MAX,
    Count,
    FilePath,
    Host,
    MqttName,
    MqttSecret,
    MqttText,
    Part,
    QoS,
    Seconds,
    Size,
    Whole,
)
from bridgehead.settings.topics import Filter
from bridgehead.wire.topicnames import valid_topic

T = TypeVar("T")

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
SPARKS_OWN: Final = frozenset({"checkpointlocation", "path"})
"""Options that Spark passes on with ours and that are its business."""

JOURNALS: Final = Path(".bridgehead") / "spark"
"""Where journals are that nobody has said a place for: below the home directory, one for each client id."""


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("must be mqtt://host[:port] or mqtts://host[:port]")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold credentials: use the options username and password")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("must end with the port: topics are an option of their own")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("must have a port between 1 and 65535") from None
    return text


def _list(value: object) -> object:
    """``a/#,b/+``, or a JSON array where a topic has a comma in its name."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return tuple(_json(value, list))
    return tuple(part for each in value.split(",") if (part := each.strip()))


def _starting(value: object) -> object:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d+", value) else value


def _version(value: object) -> object:
    return 5 if value == "5" else value


def _topic(text: str) -> str:
    if not valid_topic(text):
        raise ValueError("is not a topic that can be published to: it must not be empty nor hold '#' or '+'")
    return text


def _pairs(value: object) -> object:
    """``{"key": "value"}`` as JSON."""
    return tuple(_json(value, dict).items()) if isinstance(value, str) else value


def _json(text: str, kind: type[T]) -> T:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(found, kind):
        raise ValueError(f"must be a JSON {'array' if kind is list else 'object'}")
    return found


class Broker(Part):
    """How to reach a broker, and who we are there."""

    url: Annotated[str, AfterValidator(_url)]
    username: MqttText | None = None
    password: MqttSecret | None = None
    mqtt_version: Annotated[Literal[5, "3.1.1"], BeforeValidator(_version)] = 5
    keep_alive: Annotated[Whole, Field(ge=0, le=65_535)] = 60  # seconds; 0 = none
    ca_file: FilePath | None = None  # None = the system's trust store
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    verify_hostname: bool = True

    @model_validator(mode="after")
    def _certificates(self) -> Broker:
        given = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name) is not None]
        if given and not self.secure:
            raise ValueError("caFile, certFile and keyFile are for mqtts://")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("keyFile needs certFile")
        return self

    @property
    def secure(self) -> bool:
        return urlsplit(self.url).scheme == "mqtts"

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return parts.hostname, parts.port or PORTS[parts.scheme]

    @property
    def version(self) -> int:
        """The protocol level on the wire."""
        return 5 if self.mqtt_version == 5 else 4


class Source(Broker):
    """What a reader may be told."""

    topics: Annotated[tuple[Filter, ...], BeforeValidator(_list), Field(min_length=1)]
    client_id: MqttName  # names the session at the broker, and the journal
    qos: QoS = 1
    session_expiry: Annotated[Whole, Field(ge=0, le=UINT32_MAX)] = 86_400  # seconds that the broker keeps for us what comes
    journal_dir: FilePath = Field(default_factory=lambda data: default_journal(str(data["client_id"])))
    journal_host: Host = "127.0.0.1"  # where tasks reach the journal
    max_journal_bytes: Size = 4 << 30
    starting_offsets: Annotated[Literal["earliest", "latest"] | Annotated[int, Field(ge=0)], BeforeValidator(_starting)] = (
        "earliest"
    )
    max_rows_per_trigger: Count = 200_000
    max_bytes_per_trigger: Size = 256 << 20
    partitions: Annotated[Whole, Field(ge=1, le=10_000)] | None = None  # None = as many as are worth it
    catch_up_within: Seconds = 30.0  # for what the broker has kept, before an AvailableNow or batch read looks
    fail_on_data_loss: bool = True


class Messages(Part):
    """What a writer may be told of the messages it makes; what a column says goes first."""

    topic: Annotated[MqttText, AfterValidator(_topic)] | None = None
    qos: QoS = 1
    retain: bool = False
    message_expiry: Annotated[Whole, Field(ge=0, le=UINT32_MAX)] | None = None
    payload_format: Annotated[Whole, Field(ge=0, le=1)] | None = None
    content_type: MqttText | None = None
    response_topic: Annotated[MqttText, AfterValidator(_topic)] | None = None
    user_properties: Annotated[tuple[tuple[MqttText, MqttText], ...], BeforeValidator(_pairs)] = ()
    message_id_property: MqttText = ""  # the user property with a message's id; empty = none


class Sink(Broker, Messages):
    """What a writer may be told."""

    client_id: MqttName | None = None  # how the names of its connections begin
    message_id_property: MqttText = "message-id"
    give_up_after: Seconds = 120.0  # without progress


P = TypeVar("P", bound=Part)


def parse(kind: type[P], options: Mapping[str, str]) -> P:
    """The options as the part of settings that they are; raises SettingsError with all that is wrong."""
    spelled = {str(field.alias).lower(): str(field.alias) for field in kind.model_fields.values()}
    given = {spelled.get(name.lower(), name): value for name, value in options.items() if name.lower() not in SPARKS_OWN}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        faults = faults_of_model(error.errors(include_url=False, include_input=False), spelled.values())
        raise SettingsError([(path_text(each.path), _as_option(each.text)) for each in faults]) from None


def _as_option(text: str) -> str:
    return text.replace("unknown key", "unknown option")


def default_journal(client_id: str) -> Path:
    """A place that the same client id always finds again, and no other one shares."""
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", client_id)[:40]
    return Path.home() / JOURNALS / f"{readable}-{hashlib.sha256(client_id.encode()).hexdigest()[:12]}"


def as_document(part: Part) -> dict[str, Any]:
    """The same in plain data, secrets included: for a pipe to our own child, and nowhere else."""
    document = part.model_dump(mode="json", by_alias=True)
    password = getattr(part, "password", None)
    if password is not None:
        document["password"] = password.get_secret_value()
    return document
