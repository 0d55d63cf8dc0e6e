"""What every part of the configuration has in common, and the scalar types they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from bridgehead.settings.sizes import parse_size
from bridgehead.wire.properties import BRIDGES_CROSSED

MQTT_STRING_BYTES = 65_535  # the longest text MQTT can carry: its length is two bytes
UINT32_MAX = 4_294_967_295
INT64_MAX = 2**63 - 1


class Part(BaseModel):
    """One frozen part of the settings: camelCase in the file, snake_case in code, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_default=True,  # relative default paths must resolve like given ones
        hide_input_in_errors=True,  # a traceback must not show what may be a secret
    )


def _not_a_boolean(value: object) -> object:
    """YAML's ``yes`` is a boolean, and Python's booleans are numbers; a port is neither."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _mqtt_text(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain the character NUL")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode text") from None
    if len(encoded) > MQTT_STRING_BYTES:
        raise ValueError(f"must not be longer than {MQTT_STRING_BYTES} bytes")
    return value


def _mqtt_secret(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value().encode()) > MQTT_STRING_BYTES:
        raise ValueError(f"must not be longer than {MQTT_STRING_BYTES} bytes")
    return value


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text or not all("!" <= letter <= "~" for letter in text):
        raise ValueError("must be printable ASCII without spaces, and not empty")
    return value


def _not_the_hop_count(value: str) -> str:
    if value == BRIDGES_CROSSED:
        raise ValueError("is the property in which bridges count hops: no other value may stand in it")
    return value


def _absolute(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("must not contain the character NUL")
    return path.absolute()


Whole = Annotated[int, BeforeValidator(_not_a_boolean)]
Port = Annotated[Whole, Field(ge=1, le=65_535)]  # where somebody else listens
BindPort = Annotated[Whole, Field(ge=0, le=65_535)]  # where we listen; 0 = any free one
Count = Annotated[Whole, Field(ge=1, le=INT64_MAX)]
Positive = Annotated[float, BeforeValidator(_not_a_boolean), Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(_not_a_boolean), Field(ge=0, allow_inf_nan=False)]
Seconds = Positive
Size = Annotated[int, BeforeValidator(parse_size), Field(ge=1, le=INT64_MAX)]
QoS = Annotated[Whole, Field(ge=0, le=2)]
Host = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S+$")]
MqttText = Annotated[str, AfterValidator(_mqtt_text)]
MqttName = Annotated[str, Field(min_length=1), AfterValidator(_mqtt_text)]
PropertyName = Annotated[MqttName, AfterValidator(_not_the_hop_count)]  # of a user property
MqttSecret = Annotated[SecretStr, AfterValidator(_mqtt_secret)]
Token = Annotated[SecretStr, AfterValidator(_header_value)]  # travels as the value of a header
FilePath = Annotated[Path, AfterValidator(_absolute)]  # relative = to the working directory
