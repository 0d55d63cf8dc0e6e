"""The dead letters over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from bridgehead.console.deadletters import router
from bridgehead.storage.deaddesk import DeadLetterDesk
from bridgehead.storage.deadletters import Deaths
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.rows import numbered, outbox_rows


@pytest.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    """Three dead letters of the route r."""
    engine = MemoryEngine()
    outbox = Outbox("r", engine, 100, 1 << 20)
    desk = DeadLetterDesk(engine, {"r": outbox})
    changes = Changes()
    outbox.land(changes, outbox_rows(*numbered(0, 3)))
    engine.write(changes)
    outbox.landed()
    polled = outbox.poll(3)
    assert polled is not None
    outbox.bury(Deaths(polled.seqs, ["too-large"] * 3, [0] * 3), 0)
    app = FastAPI()
    app.include_router(router(desk))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://node") as client:
        yield client


async def test_they_are_listed_sent_again_and_dropped(api: httpx.AsyncClient) -> None:
    found = (await api.get("/api/v1/deadletters", params={"route": "r", "limit": 2})).json()
    assert ([letter["id"] for letter in found["deadLetters"]], found["total"]) == ([0, 1], 3)
    assert (await api.post("/api/v1/deadletters/resend", json={"ids": [1]})).json() == {"resent": 1}
    assert (await api.post("/api/v1/deadletters/drop", json={"route": "r", "all": True})).json() == {"dropped": 2}
    assert (await api.get("/api/v1/deadletters")).json() == {"deadLetters": [], "total": 0}


async def test_what_cannot_be_done_is_refused_with_its_reason(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/v1/deadletters/resend", json={"ids": [9]})
    assert (answer.status_code, answer.json()) == (409, {"detail": "there is no dead letter 9"})
    assert (await api.get("/api/v1/deadletters", params={"route": "x"})).status_code == 409


@pytest.mark.parametrize(
    "body", [{}, {"ids": [1], "all": True}, {"ids": ["1"]}, {"ids": [-1]}, {"ids": [2**63]}, {"all": "yes"}, {"al": True}]
)
async def test_what_does_not_say_which_ones_is_refused(api: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await api.post("/api/v1/deadletters/drop", json=body)).status_code == 422
    assert (await api.get("/api/v1/deadletters")).json()["total"] == 3
