"""The pipeline between journal and outbox."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from bridgehead.settings.part import BindPort, FilePath, Host, Part, Size, Token, Whole
from bridgehead.settings.tls import ListenerTls

Engine = Literal["spark", "inline"]


def _spark_value(value: object) -> object:
    """Spark's own configuration is text; YAML turns ``true`` and ``4`` into something else on the way."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_MASTER = re.compile(r"local(\[(\*|[1-9][0-9]*)(,[1-9][0-9]*)?\])?|local-cluster\[[0-9, ]+\]|spark://\S+|k8s://\S+|yarn")


def _known_master(value: str) -> str:
    if _MASTER.fullmatch(value) is None:
        raise ValueError("must be local, local[n], local[*], spark://host:port, k8s://host:port or yarn")
    return value


class Flight(Part):
    """Where executors reach the node, and how they prove that they may."""

    host: Host = "127.0.0.1"
    port: BindPort = 0
    advertise: Host | None = None  # host or host:port as executors reach it; None = where we listen
    token: Token | None = None  # None = a new one at each start, known only to our own driver
    tls: ListenerTls | None = None


class PipelineNode(Part):
    """A node that a pipeline on another machine works for."""

    address: Annotated[str, Field(pattern=r"^(grpc(\+tls)?://)?([^\s:/\[\]]+|\[[^\s\[\]]+\]):[0-9]{1,5}$")]
    token: Token
    ca_file: FilePath | None = None  # given = TLS; None with grpc+tls:// = whom the system trusts
    cert_file: FilePath | None = None  # for a node that asks for one
    key_file: FilePath | None = None

    @property
    def tls(self) -> bool:
        return self.ca_file is not None or self.address.startswith("grpc+tls://")

    @property
    def place(self) -> str:
        """Host and port."""
        return self.address.rpartition("//")[2]


class Pipeline(Part):
    """Which engine runs the rules, and how large a bite it takes."""

    engine: Engine = "spark"
    master: Annotated[str, AfterValidator(_known_master)] = "local[*]"
    conf: dict[Annotated[str, Field(min_length=1)], Annotated[str, BeforeValidator(_spark_value)]] = Field(
        default={},
        repr=False,  # Spark's configuration may hold the keys of a store
    )
    checkpoint: str | None = None  # a path or any address Spark can write to
    external: bool = False  # True = the node starts no driver: a `bridgehead pipeline` takes its lease
    nodes: tuple[PipelineNode, ...] = ()  # of `bridgehead pipeline`: whom it works for
    flight: Flight = Flight()
    max_rows_per_batch: Annotated[Whole, Field(ge=1, le=2**31 - 1)] = 200_000
    max_bytes_per_batch: Annotated[Size, Field(le=2**31 - 1)] = 256 * 2**20  # Arrow's offsets are 32 bits
