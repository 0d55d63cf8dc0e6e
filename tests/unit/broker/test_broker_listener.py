"""A listener: takes its port, accepts when it is told to, and stops while clients are there."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bridgehead.broker.listener import Listener
from bridgehead.errors import StartError
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Connect
from making.house import House


async def test_a_taken_port_is_one_clear_line(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"^cannot listen on 127.0.0.1:{port}: Address already in use$"):
            await Listener(house.broker, "127.0.0.1", port).bind()


async def test_it_accepts_from_its_start_to_its_stop_and_a_stop_does_not_wait_for_clients(house: House) -> None:
    listener = Listener(house.broker, "127.0.0.1", 0)
    await listener.bind()
    assert not listener.accepting
    await listener.start()
    assert listener.accepting
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(encode(Connect(5, "c"), 5))
    assert (await reader.readexactly(2))[0] == 0x20
    await asyncio.wait_for(listener.stop(), 2)
    assert not listener.accepting
    house.broker.close()
    await reader.read()
    writer.close()
