"""Who gets through to the Flight service: the token, and certificates both ways."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from pyarrow import flight

from bridgehead.pipeline.access import Access, access_to, as_environment
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.entrance import Entrance
from bridgehead.pipeline.service import Service
from bridgehead.storage.journal import SHARED
from making.certificates import Authority
from spark.host import Host

Served = Callable[[Entrance], AbstractAsyncContextManager[Service]]


@pytest.fixture
def served(tmp_path: Path) -> Served:
    @asynccontextmanager
    async def serve(entrance: Entrance) -> AsyncIterator[Service]:
        host = Host(tmp_path / "data", entrance=entrance)
        host.gate.new_epoch()
        yield host.service
        await host.service.stop()

    return serve


async def comes_through(access: Access, epoch: int = 1) -> bool:
    client = NodeClient(access, epoch)
    try:
        await asyncio.to_thread(client.begin, SHARED)
    except flight.FlightUnavailableError:
        return False
    finally:
        client.close()
    return True


async def test_a_token_can_be_given_and_without_one_each_start_has_its_own(served: Served) -> None:
    async with served(Entrance(token="of-the-user")) as service:
        assert service.access.token == "of-the-user"
        assert await comes_through(Access(service.access.address, "of-the-user"))
    tokens = set()
    for _ in range(2):
        async with served(Entrance()) as service:
            tokens.add(service.access.token)
    assert len(tokens) == 2


async def test_with_tls_the_node_is_known_by_its_ca_or_by_its_own_certificate(served: Served, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cert, key = authority.vouch("node", "127.0.0.1")
    async with served(Entrance(cert=cert.read_text(), key=key.read_text())) as service:
        own = service.access
        assert own.address.startswith("grpc+tls://")
        assert await comes_through(own)
        assert await comes_through(dataclasses.replace(own, ca=authority.cert.read_text()))
        assert not await comes_through(dataclasses.replace(own, ca=stranger.cert.read_text()))
        assert not await comes_through(dataclasses.replace(own, address=own.address.replace("grpc+tls", "grpc")))


async def test_with_a_ca_for_clients_only_those_it_vouches_for_come_through(served: Served, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cert, key = (path.read_text() for path in authority.vouch("node", "127.0.0.1"))
    async with served(Entrance(cert=cert, key=key, client_ca=authority.cert.read_text())) as service:
        own = service.access
        assert await comes_through(own)
        assert not await comes_through(dataclasses.replace(own, cert=None, key=None))
        other_cert, other_key = (path.read_text() for path in stranger.vouch("other", "127.0.0.1"))
        assert not await comes_through(dataclasses.replace(own, cert=other_cert, key=other_key))


@pytest.mark.parametrize(
    ("entrance", "address"),
    [
        (Entrance(), "grpc://127.0.0.1:4000"),
        (Entrance(host="0.0.0.0"), "grpc://127.0.0.1:4000"),
        (Entrance(host="::"), "grpc://[::1]:4000"),
        (Entrance(host="10.0.0.7"), "grpc://10.0.0.7:4000"),
        (Entrance(host="0.0.0.0", advertise="plant-7.example"), "grpc://plant-7.example:4000"),
        (Entrance(host="0.0.0.0", advertise="plant-7.example:8815"), "grpc://plant-7.example:8815"),
        (Entrance(host="::", advertise="fd00::7"), "grpc://[fd00::7]:4000"),
        (Entrance(host="::", advertise="[fd00::7]:8815"), "grpc://[fd00::7]:8815"),
    ],
)
def test_tasks_reach_the_node_where_it_says(entrance: Entrance, address: str) -> None:
    assert entrance.access(4000, "token").address == address


def test_a_task_finds_the_access_to_its_node_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    accesses = [Access("grpc://a:1", "one"), Access("grpc+tls://b:2", "two", ca="pem", cert="mine", key="private")]
    for name, value in as_environment(accesses).items():
        monkeypatch.setenv(name, value)
    assert [access_to(access.address) for access in accesses] == accesses
    with pytest.raises(KeyError, match="grpc://c:3"):
        access_to("grpc://c:3")


def test_secrets_of_an_access_are_not_shown() -> None:
    for secretive in (Access("grpc://a:1", "hidden", key="hidden"), Entrance(token="hidden", key="hidden")):
        assert "hidden" not in repr(secretive)
