"""Who may change something over HTTP: somebody on this machine who means it."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from bridgehead.console.guard import Guard

JSON = {"content-type": "application/json"}


async def ask(
    method: str,
    headers: dict[str, str],
    client: str = "127.0.0.1",
    host: str = "localhost:8080",
    token: str | None = None,
) -> int:
    api = FastAPI()
    api.add_middleware(Guard, token=token)

    @api.api_route("/thing", methods=["GET", "POST", "DELETE"])
    async def thing() -> str:
        return "done"

    transport = httpx.ASGITransport(api, client=(client, 4711))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as sender:
        return (await sender.request(method, "/thing", headers=headers)).status_code


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "127.8.9.1", "[::1]:8080"])
async def test_somebody_on_this_machine_may_change_something(host: str) -> None:
    assert await ask("POST", JSON, host=host) == 200
    assert await ask("DELETE", JSON, host=host) == 200


async def test_whoever_reaches_the_port_may_read() -> None:
    assert await ask("GET", {}, client="192.0.2.1", host="node.example") == 200


@pytest.mark.parametrize("client", ["192.0.2.1", "::ffff:192.0.2.1"])
async def test_another_machine_may_change_nothing(client: str) -> None:
    assert await ask("POST", JSON, client=client) == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example"])
async def test_a_name_that_somebody_pointed_at_this_machine_opens_nothing(host: str) -> None:
    assert await ask("POST", JSON, host=host) == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_what_a_browser_sends_across_origins_without_asking_opens_nothing(kind: str) -> None:
    assert await ask("POST", {"content-type": kind}) == 403


async def test_a_method_that_no_page_can_use_without_asking_needs_no_body() -> None:
    assert await ask("DELETE", {}) == 200


async def test_another_machine_may_change_something_with_the_token() -> None:
    there = {"client": "192.0.2.1", "host": "node.example"}
    assert await ask("POST", {**JSON, "authorization": "Bearer open"}, token="open", **there) == 200
    assert await ask("POST", {"authorization": "Bearer open"}, token="open", **there) == 403


@pytest.mark.parametrize("shown", ["Bearer close", "Basic open", "Bearer", "open", "Bearer open2"])
async def test_anything_but_the_token_opens_nothing(shown: str) -> None:
    there = {"client": "192.0.2.1", "host": "node.example"}
    assert await ask("POST", {**JSON, "authorization": shown}, token="open", **there) == 403
    assert await ask("POST", {**JSON, "authorization": shown}, token=None, **there) == 403


async def test_who_is_on_this_machine_needs_no_token() -> None:
    assert await ask("POST", JSON, token="open") == 200
