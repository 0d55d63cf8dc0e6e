"""The way to a remote is made of what its bridge says."""

from __future__ import annotations

import asyncio

from bridgehead.bridge.dialling import way_of
from bridgehead.link.link import Buffer, Link
from bridgehead.settings.load import from_document


class Owner:
    """Of a link that nothing is said on."""

    def link_opened(self) -> None:
        raise AssertionError("nobody has answered")

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        return end, 0

    def link_closed(self, error: Exception | None) -> None:
        return

    def link_writable(self) -> None:
        return


async def test_a_websocket_is_asked_for_at_its_path_and_by_its_subprotocol() -> None:
    asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set_result(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    websocket = {"path": "/some/where?x=1", "subProtocol": "mqttv3.1"}
    settings = from_document({"bridges": [{"id": "b", "host": "h", "bridgeWebsocketConfig": websocket}]})
    transport = await way_of(settings.bridges[0]).dial(Link(Owner()), "127.0.0.1", port)
    lines = (await asyncio.wait_for(asked, 20)).decode().split("\r\n")
    assert lines[:2] == ["GET /some/where?x=1 HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    assert "Sec-WebSocket-Protocol: mqttv3.1" in lines
    transport.abort()
    server.close()
