"""Who may change something over HTTP: somebody on this machine who means it.

Reading is free to whoever reaches the port. A request that changes something comes from a loopback address, names no other host
than this machine, and brings JSON: a page in a browser can send none of that across origins without being asked first.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware around the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope) if scope["type"] == "http" and scope["method"] not in READS else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"detail": refusal}, status_code=403)(scope, receive, send)


def _refusal(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return "only from this machine"
    if not is_loopback(_host_of(headers.get("host", ""))):
        return "only under a name of this machine"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "only as application/json"
    return None


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
