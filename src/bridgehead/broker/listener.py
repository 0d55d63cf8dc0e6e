"""Listeners: where clients come in."""

from __future__ import annotations

import asyncio
import os

from bridgehead.broker.broker import Broker
from bridgehead.errors import StartError


class Listener:
    """One TCP address that accepts MQTT clients."""

    def __init__(self, broker: Broker, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._broker = broker
        self._server: asyncio.Server | None = None

    async def bind(self) -> None:
        """Take the port; nobody is accepted before ``start``."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: self._broker.new_connection().link, self.host, self.port, backlog=1024, start_serving=False
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartError(f"cannot listen on {self.host}:{self.port}: {reason}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def start(self) -> None:
        assert self._server is not None
        await self._server.start_serving()

    @property
    def accepting(self) -> bool:
        return self._server is not None and self._server.is_serving()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
