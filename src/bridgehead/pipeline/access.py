"""How a process reaches the Flight service of a node: the address, the token, and whom to trust.

Tasks find it in their environment, which nobody else's processes can read, and never in a plan that Spark may print.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Final

from pyarrow import flight

TOKENS_VARIABLE: Final = "BRIDGEHEAD_FLIGHT_TOKENS"
"""Where Spark's processes find every access they may need. Spark hides values of names with "token" in its own pages."""

PLAIN: Final = "grpc"
TLS: Final = "grpc+tls"


@dataclass(frozen=True, slots=True)
class Access:
    """What a client must know of one node; plain values, certificates as PEM text, so that it travels."""

    address: str  # grpc://host:port or grpc+tls://host:port
    token: str = field(repr=False)
    ca: str | None = field(default=None, repr=False)  # who vouches for the node; None = whom the system trusts
    cert: str | None = field(default=None, repr=False)  # shown to a node that asks for one
    key: str | None = field(default=None, repr=False)

    def connect(self) -> flight.FlightClient:
        """A client of its own; it connects with its first call."""
        return flight.FlightClient(self.address, tls_root_certs=self.ca, cert_chain=self.cert, private_key=self.key)


def at_address(host: str, port: int | str, *, tls: bool = False) -> str:
    """Host and port as Flight writes them."""
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{TLS if tls else PLAIN}://{bracketed}:{port}"


def as_environment(accesses: Iterable[Access]) -> dict[str, str]:
    """What the environment of a Spark process must say, so that it can reach these nodes."""
    return {TOKENS_VARIABLE: json.dumps([asdict(access) for access in accesses])}


def access_to(address: str) -> Access:
    """The access that this process was given for an address."""
    for given in json.loads(os.environ[TOKENS_VARIABLE]):
        if given["address"] == address:
            return Access(**given)
    raise KeyError(f"no token for {address} in {TOKENS_VARIABLE}")
