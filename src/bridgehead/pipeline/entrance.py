"""Where a Flight service listens, and what it asks of those who come."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.pipeline.access import Access, at_address

ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Listening everywhere; and where that is reached from this machine."""

_WITH_PORT: Final = re.compile(r"(?P<host>[^:]+|\[.+\]):(?P<port>\d+)")


@dataclass(frozen=True, slots=True)
class Entrance:
    """Certificates as PEM text."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 = any free one
    advertise: str | None = None  # host or host:port where Spark's processes reach us; None = where we listen
    token: str | None = field(default=None, repr=False)  # None = one is made for this start
    cert: str | None = None  # None = no TLS
    key: str | None = field(default=None, repr=False)
    client_ca: str | None = None  # who vouches for clients; None = they need no certificate

    @property
    def location(self) -> str:
        return at_address(self.host, self.port, tls=self.cert is not None)

    def tls_options(self) -> dict[str, Any]:
        """As Flight's server takes them."""
        if self.cert is None:
            return {}
        options: dict[str, Any] = {"tls_certificates": [(self.cert, self.key)]}
        if self.client_ca is not None:
            options |= {"verify_client": True, "root_certificates": self.client_ca}
        return options

    def access(self, port: int, token: str) -> Access:
        """How our own Spark processes reach us: they trust this very certificate, and show it where one is asked for."""
        host = self.advertise or ANY_ADDRESS.get(self.host, self.host)
        if told := _WITH_PORT.fullmatch(host):
            host, port = told["host"], int(told["port"])
        shown = {"cert": self.cert, "key": self.key} if self.client_ca is not None else {}
        return Access(at_address(host, port, tls=self.cert is not None), token, ca=self.cert, **shown)


LOOPBACK: Final = Entrance()
"""Any free port that only this machine can reach, a new token."""
