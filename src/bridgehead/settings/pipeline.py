"""The pipeline between journal and outbox."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bridgehead.settings.part import BindPort, Host, Part, Size, Whole

Engine = Literal["spark", "inline"]


def _spark_value(value: object) -> object:
    """Spark's own configuration is text; YAML turns ``true`` and ``4`` into something else on the way."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class Flight(Part):
    """Where executors reach the node."""

    host: Host = "127.0.0.1"
    port: BindPort = 0


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
