"""Rows through a real Spark: all of them, once, in order, unchanged but for the rules."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import STORED
from spark.host import Host, stored_rows

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

PATIENCE = 60.0


def payloads(batches: list[Batch]) -> list[bytes]:
    return [payload for batch in batches for payload in batch.column("payload").to_pylist()]


def numbered(rows: int, first: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(first, first + rows)]


async def crossed(host: Host) -> None:
    async with asyncio.timeout(PATIENCE):
        await host.consumed()


async def test_rows_of_several_routes_cross_once_in_order(host: Host) -> None:
    for first in range(0, 60_000, 500):
        host.append(stored_rows(numbered(500, first), ["t/1", "t/2"], ["a", "b", "c"][first // 500 % 3 :]))
        await asyncio.sleep(0)
    await crossed(host)
    expected: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
    for first in range(0, 60_000, 500):
        routes = ["a", "b", "c"][first // 500 % 3 :]
        for i, payload in enumerate(numbered(500, first)):
            expected[routes[i % len(routes)]].append(payload)
    for route in host.routes:
        batches = host.take(route)
        assert payloads(batches) == expected[route]
        assert {topic for batch in batches for topic in batch.column("topic").to_pylist()} == {"cloud/t/1", "cloud/t/2"}


async def test_a_single_row_crosses_with_all_its_properties(host: Host) -> None:
    row = {
        "topic": "t/ü",
        "payload": b"",
        "qos": 2,
        "retain": True,
        "received_at": 1_700_000_000_000_000,
        "client_id": "device",
        "route": "a",
        "message_expiry": 4_294_967_295,
        "payload_format": 1,
        "content_type": "text/plain",
        "response_topic": "answers",
        "correlation_data": b"\x00\xff",
        "user_properties": [{"key": "k", "value": "v"}, {"key": "k", "value": ""}],
    }
    host.append(pa.RecordBatch.from_pylist([row], schema=STORED))
    await crossed(host)
    [batch] = host.take("a")
    landed = batch.to_pylist()[0]
    assert landed.pop("topic") == "cloud/t/ü"
    assert landed.pop("retain") is False
    assert landed.pop("wire_qos") == 2
    assert landed.pop("user_properties")[:2] == row["user_properties"]
    assert int(landed.pop("received_at").timestamp() * 1e6) == row["received_at"]
    assert landed == {name: row[name] for name in landed}


async def test_payloads_of_five_megabytes_cross_in_order(host: Host) -> None:
    large = [bytes([i]) * (5 << 20) for i in range(20)]
    for i, payload in enumerate(large):
        host.append(stored_rows([payload, b"small %d" % i], ["t"], ["b"]))
    await crossed(host)
    got = payloads(host.take("b"))
    assert [len(payload) for payload in got[::2]] == [5 << 20] * 20
    assert got[::2] == large
    assert got[1::2] == [b"small %d" % i for i in range(20)]


async def test_a_batch_is_bounded_in_rows(host: Host) -> None:
    before = host.gate.stats("shared").batches
    host.append(stored_rows([b"x"] * 450_000, ["t"], ["c"]))
    await crossed(host)
    assert host.gate.stats("shared").batches - before >= 3
    assert sum(batch.num_rows for batch in host.take("c")) == 450_000


async def test_what_has_crossed_leaves_the_journal(host: Host) -> None:
    host.append(stored_rows(numbered(10), ["t"], ["a"]))
    await crossed(host)
    host.append(stored_rows(numbered(1), ["t"], ["a"]))
    await crossed(host)
    assert payloads(host.take("a")) == [*numbered(10), *numbered(1)]
    async with asyncio.timeout(PATIENCE):
        while host.log.weight:  # the reader releases a batch before it looks for the next one
            await host.asked_for_rows()


async def test_a_backlog_is_taken_in_large_batches_and_what_follows_in_small_ones(host: Host) -> None:
    sizes: list[int] = []
    committed = host.gate.landing.on_commit

    def note(log: str) -> None:
        sizes.append(host.gate.stats(log).last_rows)
        committed(log)

    host.gate.landing.on_commit = note
    host.service.freeze()  # as while Spark is away: no batch begins
    async with asyncio.timeout(PATIENCE):
        await host.service.at_rest.wait()
    for first in range(0, 250_000, 5000):
        host.append(stored_rows(numbered(5000, first), ["t"], ["a"]))
        await asyncio.sleep(0)
    host.service.thaw()
    await crossed(host)
    assert sizes == [200_000, 50_000]  # maxRowsPerBatch, and the rest
    host.append(stored_rows(numbered(10), ["t"], ["a"]))
    await crossed(host)
    assert sizes[2:] == [10]
    assert payloads(host.take("a")) == numbered(250_000) + numbered(10)
