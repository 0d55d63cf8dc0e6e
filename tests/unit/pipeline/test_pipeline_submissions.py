"""Rows that are published into a node by somebody's query: all of a batch or nothing, and each batch once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from bridgehead.app import Node
from bridgehead.columns.batches import Batch, checksum
from bridgehead.errors import RefusedError
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.client import GUEST, NodeClient
from bridgehead.pipeline.staging import Staged
from bridgehead.pipeline.submissions import SUBMITTED, Submissions
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from making.node import inline_node
from making.rows import numbered, numbers, wire_rows

T = TypeVar("T")


def node_in(directory: Path, mode: str = "in-memory", **given: Any) -> Node:
    pipeline = {"engine": "inline", "flight": {"token": "key"}}
    # Nobody listens there: what is pushed stays in the outbox.
    return inline_node(directory, 1, persistence={"mode": mode, "minFree": 0}, pipeline=pipeline, **given)


def client_of(node: Node) -> NodeClient:
    assert node._engines is not None
    assert node._engines.service is not None
    access = node._engines.service.access
    return NodeClient(Access(access.address, "key"), GUEST)


def part(name: str, rows: Batch) -> dict[str, Any]:
    return {"name": name, "rows": rows.num_rows, "checksum": checksum([rows])}


async def asked(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(call)


async def bring(client: NodeClient, app: str, version: int, *parts: Batch) -> bool | None:
    def both() -> bool | None:
        for i, rows in enumerate(parts):
            client.stage_submission(app, version, str(i), [rows])
        return client.submit(app, version, [part(str(i), rows) for i, rows in enumerate(parts)], "spark")

    return await asked(both)


def pushed(node: Node) -> int:
    return sum(route["entered"] for route in node.view().snapshot()["routes"].values() if route["direction"] == "push")


def out(first: int, rows: int, **given: Any) -> Batch:
    return wire_rows(*numbered(first, rows, topic="out/a", **given))


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = node_in(tmp_path)
    await node.start()
    yield node
    await node.stop()


async def test_a_batch_is_published_once_however_often_it_comes(node: Node) -> None:
    client = client_of(node)
    assert await bring(client, "query", 0, out(0, 3), out(3, 2)) is True
    assert await bring(client, "query", 0, out(0, 3), out(3, 2)) is False
    assert await bring(client, "query", 1, out(5, 1)) is True
    assert await bring(client, "another", 0, out(6, 1)) is True
    assert pushed(node) == 7
    client.close()


async def test_the_next_life_knows_what_was_published(tmp_path: Path) -> None:
    node = node_in(tmp_path, "file-native")
    await node.start()
    client = client_of(node)
    assert await bring(client, "query", 7, out(0, 3)) is True
    client.close()
    await node.stop()
    node = node_in(tmp_path, "file-native")
    await node.start()
    client = client_of(node)
    assert await bring(client, "query", 7, out(0, 3)) is False
    assert await bring(client, "query", 8, out(3, 3)) is True
    assert pushed(node) == 6
    client.close()
    await node.stop()


async def test_rows_of_a_batch_without_room_wait_all_together(tmp_path: Path) -> None:
    limits = {"maxQueuedMessages": 3, "strategy": "refuse"}
    node = node_in(tmp_path, queuedMessages=limits)
    await node.start()
    client = client_of(node)
    assert await bring(client, "query", 0, out(0, 2)) is True
    assert await bring(client, "query", 1, out(2, 2)) is None
    assert pushed(node) == 2
    assert await bring(client, "query", 1, out(2, 1)) is True, "nothing was noted of what was not published"
    client.close()
    await node.stop()


async def test_a_part_that_is_missing_or_another_one_refuses_the_whole(node: Node) -> None:
    client = client_of(node)
    rows = out(0, 2)
    with pytest.raises(RefusedError, match="has to run again"):
        await asked(lambda: client.submit("query", 0, [part("0", rows)], "spark"))
    await asked(lambda: client.stage_submission("query", 0, "0", [rows]))
    with pytest.raises(RefusedError, match="not what was announced"):
        await asked(lambda: client.submit("query", 0, [part("0", out(0, 3))], "spark"))
    await asked(lambda: client.abort("query", 0))
    with pytest.raises(RefusedError, match="has to run again"):
        await asked(lambda: client.submit("query", 0, [part("0", rows)], "spark"))
    assert pushed(node) == 0
    client.close()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"topic": "a/#"}, "topic"),
        ({"topic": None}, "topic"),
        ({"qos": 3}, "qos"),
        ({"user_properties": None}, "user_properties"),
    ],
)
async def test_what_no_client_could_publish_is_refused(node: Node, row: dict[str, Any], why: str) -> None:
    client = client_of(node)
    with pytest.raises(RefusedError, match=why):
        await asked(lambda: client.stage_submission("query", 0, "0", [wire_rows(row)]))
    client.close()


class Desk:
    """Submissions without a broker."""

    def __init__(self, max_bytes: int = 1 << 20) -> None:
        self.engine = MemoryEngine()
        self.published: list[int] = []
        self.submissions = Submissions(self.engine, self._publish, max_bytes)

    def _publish(self, batch: Batch, client: str, note: Callable[[Changes], None]) -> bool:
        self.published += numbers(batch)
        changes = Changes()
        note(changes)
        self.engine.write(changes)
        return True

    async def stage(self, app: str, version: int, name: str, rows: Batch) -> None:
        await self.submissions.stage({"app": app, "version": version, "part": name}, Staged.of([rows]))

    async def commit(self, app: str, version: int, *parts: dict[str, Any]) -> bool | None:
        told = {"app": app, "version": version, "parts": parts, "client": "c"}
        published: bool | None = (await self.submissions.commit(told))["published"]
        return published


async def test_parts_are_published_in_the_order_in_which_they_are_named() -> None:
    desk = Desk()
    rows = [out(0, 2), out(2, 2)]
    await desk.stage("q", 0, "second", rows[1])
    await desk.stage("q", 0, "first", rows[0])
    await desk.stage("q", 0, "of a lost attempt", out(9, 1))
    assert await desk.commit("q", 0, part("first", rows[0]), part("second", rows[1])) is True
    assert desk.published == [0, 1, 2, 3]


async def test_what_nobody_commits_gives_way() -> None:
    rows = wire_rows({"payload": bytes(400)})
    desk = Desk(max_bytes=3 * Staged.of([rows]).size)
    for app in "abcd":
        await desk.stage(app, 0, "p", rows)
    with pytest.raises(RefusedError, match="run again"):
        await desk.commit("a", 0, part("p", rows))
    await desk.stage("d", 1, "p", rows)
    with pytest.raises(RefusedError, match="run again"):
        await desk.commit("d", 0, part("p", rows))


async def test_a_batch_that_is_too_large_is_refused() -> None:
    rows = wire_rows({"payload": bytes(400)})
    desk = Desk(max_bytes=2 * Staged.of([rows]).size)
    for name in "xy":
        await desk.stage("q", 0, name, rows)
    with pytest.raises(RefusedError, match="more than"):
        await desk.stage("q", 0, "z", rows)


async def test_the_memory_for_queries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.pipeline.submissions.MAX_APPS", 2)
    desk = Desk()
    for app, version in [("a", 0), ("b", 0), ("a", 1), ("c", 0)]:
        assert await desk.commit(app, version) is True
    assert [name[1] for name, _ in desk.engine.states((SUBMITTED,))] == ["a", "c"]
    assert await desk.commit("a", 1) is False


