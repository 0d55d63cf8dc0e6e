"""The API of a running node, as commands use it."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
from fastapi import APIRouter, HTTPException

from bridgehead.commands.nodeapi import NodeApi
from bridgehead.console.server import Console
from bridgehead.errors import CommandError, NotRunningError
from bridgehead.settings.load import default_settings
from bridgehead.telemetry.snapshot import NodeView
from making.house import House


def api_on(port: int) -> NodeApi:
    settings = default_settings()
    return NodeApi(settings.model_copy(update={"console": settings.console.model_copy(update={"port": port})}))


def router() -> APIRouter:
    found = APIRouter()

    @found.post("/api/v1/echo")
    async def echo(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @found.post("/api/v1/never")
    async def never() -> None:
        raise HTTPException(409, "not today")

    return found


async def test_a_command_asks_the_running_node_and_hears_its_refusals() -> None:
    house = House()
    view = NodeView("edge", lambda: True, house.broker, house.journal, None, None, {}, [])  # type: ignore[arg-type]
    console = Console("127.0.0.1", 0, view, router())
    await console.start()
    api = api_on(console.port)
    try:
        assert (await asyncio.to_thread(api.get, "/api/v1/health/liveness"))["status"] == "UP"
        assert await asyncio.to_thread(api.post, "/api/v1/echo", {"a": 1}) == {"a": 1}
        with pytest.raises(CommandError, match="not today"):
            await asyncio.to_thread(api.post, "/api/v1/never", {})
    finally:
        await console.stop()
        house.broker.close()


def test_where_nobody_listens_no_node_runs() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(NotRunningError, match="no node answers"):
            api_on(free.getsockname()[1]).get("/api/v1/status")


def test_something_else_on_the_port_is_not_taken_for_a_node() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.settimeout(10)
        api = api_on(other.getsockname()[1])
        def answer() -> None:
            peer, _ = other.accept()
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            peer.close()

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(CommandError, match="is not a node"):
            api.get("/api/v1/status")
        answering.join()
