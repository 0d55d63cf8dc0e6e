"""Health over HTTP: alive while the loop turns, ready when listeners accept and the pipeline runs."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx
import pytest

from bridgehead.console.server import Console, _api
from bridgehead.errors import StartError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.watch import State, Watch
from bridgehead.storage.freespace import FreeSpace
from bridgehead.telemetry.snapshot import NodeView
from making.house import House


@dataclass
class Pipeline:
    """What the view reads of a pipeline."""

    state: State
    starts: int = 1
    holder: str | None = None
    ui: str | None = None

    @property
    def ready(self) -> bool:
        return self.state.phase == "running"


@pytest.fixture
async def view() -> AsyncIterator[NodeView]:
    house = House()
    yield NodeView(
        name="edge",
        listening=lambda: True,
        broker=house.broker,
        journal=house.journal,
        gate=Gate(house.engine, house.journal, {}),
        pipeline=None,
        bridges={},
        routes=[],
    )
    house.broker.close()


async def get(view: NodeView, path: str) -> tuple[int, Any]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(_api(view)), base_url="http://node") as client:
        answer = await client.get(path)
    return answer.status_code, answer.json()


def with_pipeline(view: NodeView, state: State) -> NodeView:
    return replace(view, pipeline=cast("Watch", Pipeline(state)))


async def test_a_node_is_alive_while_its_loop_turns(view: NodeView) -> None:
    assert await get(replace(view, listening=lambda: False), "/api/v1/health/liveness") == (200, {"status": "UP"})


async def test_a_node_without_a_pipeline_is_ready_when_its_listeners_accept(view: NodeView) -> None:
    up = {"status": "UP", "reasons": [], "degraded": []}
    assert await get(view, "/api/v1/health/readiness") == (200, up)
    code, answer = await get(replace(view, listening=lambda: False), "/api/v1/health/readiness")
    assert (code, answer["reasons"]) == (503, ["listeners do not accept yet"])


async def test_a_node_whose_disk_is_nearly_full_is_ready_and_degraded(view: NodeView) -> None:
    full = replace(view, space=FreeSpace(lambda: 5, 10))
    code, answer = await get(full, "/api/v1/health/readiness")
    assert (code, answer["degraded"]) == (200, ["free disk space is below persistence.minFree (5 of 10 bytes)"])
    _, status = await get(full, "/api/v1/status")
    assert status["storage"] == {"free": 5, "spokenFor": 0, "minFree": 10, "refusing": True, "refused": 0}


async def test_a_node_with_spark_is_ready_when_its_query_runs(view: NodeView) -> None:
    code, answer = await get(with_pipeline(view, State("running")), "/api/v1/health/readiness")
    assert (code, answer["status"]) == (200, "UP")


async def test_a_pipeline_that_cannot_start_shows_as_503_with_its_reason(view: NodeView) -> None:
    failed = with_pipeline(view, State("failed", "no Java here"))
    code, answer = await get(failed, "/api/v1/health/readiness")
    assert (code, answer["status"], answer["reasons"]) == (503, "DOWN", ["pipeline is failed: no Java here"])


async def test_all_reasons_are_told_at_once(view: NodeView) -> None:
    nothing = replace(with_pipeline(view, State("starting")), listening=lambda: False)
    _, answer = await get(nothing, "/api/v1/health/readiness")
    assert answer["reasons"] == ["listeners do not accept yet", "pipeline is starting"]


async def test_the_status_is_the_snapshot(view: NodeView) -> None:
    code, answer = await get(with_pipeline(view, State("running")), "/api/v1/status")
    assert code == 200
    assert answer == json.loads(json.dumps(with_pipeline(view, State("running")).snapshot()))
    assert answer["pipeline"]["state"] == "running"


async def test_an_unknown_path_is_not_found(view: NodeView) -> None:
    assert (await get(view, "/api/v1/nothing"))[0] == 404


async def test_a_taken_port_is_one_clear_line(view: NodeView) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"^the console cannot listen on 127.0.0.1:{port}: Address already in use$"):
            await Console("127.0.0.1", port, view).start()


async def test_it_serves_on_its_own_port_and_stops(view: NodeView) -> None:
    console = Console("127.0.0.1", 0, view)
    await console.start()
    async with httpx.AsyncClient() as client:
        while True:
            try:
                answer = await client.get(f"http://127.0.0.1:{console.port}/api/v1/health/liveness")
                break
            except httpx.ConnectError:  # bound, and listening in a moment
                await asyncio.sleep(0)
    assert answer.status_code == 200
    await console.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", console.port)
