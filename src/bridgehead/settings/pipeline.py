"""The pipeline between journal and outbox."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bridgehead.settings.part import BindPort, Host, Part, Size, Whole
from bridgehead.settings.tls import ListenerTls

Engine = Literal["spark", "inline"]


def _spark_value(value: object) -> object:
    """Spark's own configuration is text; YAML turns ``true`` and ``4`` into something else on the way."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _header_value(value: SecretStr) -> SecretStr:
    """The token travels as the value of a gRPC header."""
    text = value.get_secret_value()
    if not text or not all("!" <= letter <= "~" for letter in text):
        raise ValueError("must be printable ASCII without spaces, and not empty")
    return value


Token = Annotated[SecretStr, AfterValidator(_header_value)]


class Flight(Part):
    """Where executors reach the node, and how they prove that they may."""

    host: Host = "127.0.0.1"
    port: BindPort = 0
    advertise: Host | None = None  # host or host:port as executors reach it; None = where we listen
    token: Token | None = None  # None = a new one at each start, known only to our own driver
    tls: ListenerTls | None = None


class Pipeline(Part):
    """Which engine runs the rules, and how large a bite it takes."""

    engine: Engine = "spark"
    master: Annotated[str, Field(min_length=1)] = "local[*]"
    conf: dict[Annotated[str, Field(min_length=1)], Annotated[str, BeforeValidator(_spark_value)]] = Field(
        default={},
        repr=False,  # Spark's configuration may hold the keys of a store
    )
    checkpoint: str | None = None  # a path or any address Spark can write to
    nodes: tuple[Any, ...] = ()
    flight: Flight = Flight()
    max_rows_per_batch: Annotated[Whole, Field(ge=1, le=2**31 - 1)] = 200_000
    max_bytes_per_batch: Annotated[Size, Field(le=2**31 - 1)] = 256 * 2**20  # Arrow's offsets are 32 bits
