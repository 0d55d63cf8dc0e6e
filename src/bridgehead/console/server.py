"""The HTTP server of a node, on the node's own event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Response

from bridgehead import __version__
from bridgehead.console.guard import Guard
from bridgehead.console.metrics import metrics_router
from bridgehead.errors import StartError
from bridgehead.telemetry.audit import account
from bridgehead.telemetry.snapshot import NodeView


class Console:
    """Serves the API of one node: what can be read here, what can be asked for in ``routers``, one an area."""

    def __init__(self, host: str, port: int, view: NodeView, *routers: APIRouter, token: str | None = None) -> None:
        """``token``: whoever shows it may change something from another machine."""
        self.host = host
        self.port = port
        config = uvicorn.Config(
            _api(view, *routers, token=token),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            loop="none",
            ws="none",
        )
        self._server = _Server(config)
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((self.host, self.port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartError(f"the console cannot listen on {self.host}:{self.port}: {reason}") from error
        self.port = self._socket.getsockname()[1]
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


class _Server(uvicorn.Server):
    """The node handles signals itself."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


def _api(view: NodeView, *routers: APIRouter, token: str | None = None) -> FastAPI:
    api = FastAPI(title="Bridgehead", version=__version__, docs_url=None, redoc_url=None)
    api.add_middleware(Guard, token=token)
    for router in (metrics_router(view), *routers):
        api.include_router(router)

    @api.get("/api/v1/health/liveness")
    async def liveness() -> dict[str, str]:
        return {"status": "UP"}

    @api.get("/api/v1/health/readiness")
    async def readiness(response: Response) -> dict[str, Any]:
        reasons = view.unready()
        response.status_code = 503 if reasons else 200
        return {"status": "DOWN" if reasons else "UP", "reasons": reasons, "degraded": view.degraded()}

    @api.get("/api/v1/status")
    async def status() -> dict[str, Any]:
        return view.snapshot()

    @api.get("/api/v1/audit")
    async def audit() -> dict[str, Any]:
        return account(view)

    return api
