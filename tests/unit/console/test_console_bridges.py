"""What is said over HTTP that no node could do: a problem document, whatever it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from bridgehead.console.bridges import bridges_router
from bridgehead.node.management import Management
from bridgehead.settings.configuration import Configuration
from bridgehead.settings.load import from_document

API = "/api/v1/management/bridges"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    """A node with the bridge ``there``; nothing of this comes as far as to change it."""
    settings = from_document({"bridges": [{"id": "there", "host": "example.com"}]})
    node: Any = SimpleNamespace(settings=settings)
    management = Management(Configuration.of(settings), node)
    management.begin()
    app = FastAPI()
    app.include_router(bridges_router(management))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://node") as client:
        yield client


def nested(depth: int) -> str:
    return '{"id": "x", "host": "h", "localSubscriptions": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    "body",
    [*(nested(depth).encode() for depth in (100, 400, 900, 1000, 100_000)), b"{", b"[]", b"\xff", b'"\xff"', b"null", b""],
    ids=["100", "400", "900", "1000", "100000", "cut", "list", "no text", "no unicode", "null", "empty"],
)
@pytest.mark.parametrize(("method", "path"), [("POST", API), ("PUT", f"{API}/there"), ("PUT", f"{API}/there/status")])
async def test_a_body_that_cannot_be_used_is_a_problem_document(
    api: httpx.AsyncClient, method: str, path: str, body: bytes
) -> None:
    answer = await api.request(method, path, content=body, headers=JSON)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert problem["type"] in ("InvalidQueryParameter", "BridgeFailedSchemaValidation")
    assert problem["status"] == 400
    assert problem["errors"]


async def test_all_faults_are_told_at_once_by_the_names_that_were_used(api: httpx.AsyncClient) -> None:
    tls = {"enabled": True, "keystorePath": "/k.jks", "keystoreType": "JKS", "handshakeTimeout": -1}
    body = {"id": "new", "host": "h", "port": 0, "password": "********", "tlsConfiguration": tls}
    problem = (await api.post(API, json=body)).json()
    assert {each["parameter"] for each in problem["errors"]} >= {
        "port",
        "password",
        "tlsConfiguration.keystoreType",
        "tlsConfiguration.handshakeTimeout",
    }
