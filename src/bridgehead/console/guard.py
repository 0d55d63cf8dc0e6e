"""Who may change something over HTTP: somebody on this machine who means it, or somebody with the token.

Reading is free to whoever reaches the port. A request that changes something comes from a loopback address and names no other
host than this machine, or it shows the token of the configuration. What it brings is JSON: a page in a browser can send none of
that across origins without being asked first, nor anything by a method that only the API knows.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SIMPLE: Final = frozenset({"POST"})
"""Of the others: methods that a browser lets any page use without asking, as long as it says that it brings a form or text."""
JSON: Final = "application/json"


class Guard:
    """ASGI middleware around the API."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" and scope["method"] not in READS else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"detail": refusal}, status_code=403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        client = scope.get("client")
        if not self._shows_token(headers):
            if client is None or not is_loopback(client[0]):
                return "only from this machine" + (", or with the token" if self._token is not None else "")
            if not is_loopback(_host_of(headers.get("host", ""))):
                return "only under a name of this machine"
        if scope["method"] in SIMPLE and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return "only as application/json"
        return None

    def _shows_token(self, headers: Headers) -> bool:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if self._token is None or kind.lower() != "bearer":
            return False
        return hmac.compare_digest(shown.strip().encode(), self._token.encode())


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(header: str) -> str:
    """The name in a Host header: without its port, and without the brackets of an IPv6 address."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
