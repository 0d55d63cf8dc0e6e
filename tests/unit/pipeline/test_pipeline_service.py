"""The Flight service as its clients see it: the right answers, and the right refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import pytest_asyncio
from pyarrow import flight

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import MESSAGE, OUTBOX
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.entrance import Entrance
from bridgehead.pipeline.protocol import MAX_BATCH_BYTES, MAX_BATCH_ROWS, ROUTED
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.service import _as_it_says, bounded
from bridgehead.pipeline.task import Stager
from bridgehead.storage.journal import SHARED
from spark.host import Host, stored_rows


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(tmp_path, routes=["a", "b"])
    host.epoch = host.gate.new_epoch()
    yield host
    await host.service.stop()


@pytest_asyncio.fixture
async def client(host: Host) -> AsyncIterator[NodeClient]:
    client = NodeClient(host.service.access, host.epoch)
    yield client
    client.close()


def payloads(batches: list[Batch]) -> list[bytes]:
    return [payload for batch in batches for payload in batch.column("payload").to_pylist()]


def numbered(rows: int, first: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(first, first + rows)]


def stage_all(client: NodeClient, host: Host, incarnation: str, start: int, end: int) -> list[dict[str, object]]:
    """What a task of the scan does."""
    stager, rules = Stager(client, SHARED, f"task-{start}"), {rules.route: rules for rules in host.rules}
    for first, batch in client.read_routed(incarnation, SHARED, start, end):
        stager.add(batch, first, rules)
    return stager.finish()


async def test_rows_go_out_as_messages_with_their_offsets_node_and_bridge(host: Host, client: NodeClient) -> None:
    host.append(stored_rows(numbered(3), ["t"], ["a", "b"]))
    host.append(stored_rows(numbered(2, 3), ["t"], ["b"]))
    incarnation, start = await asyncio.to_thread(client.begin, SHARED)
    batches = await asyncio.to_thread(lambda: list(client.read_messages(incarnation, SHARED, start + 1, 5)))
    assert [batch.schema for batch in batches] == [MESSAGE]
    assert payloads(batches) == numbered(4, 1)
    assert batches[0].column("journal_offset").to_pylist() == [1, 2, 3, 4]
    assert batches[0].column("route").to_pylist() == ["b", "a", "b", "b"]
    assert set(batches[0].column("bridge").to_pylist()) == {"cloud"}
    assert set(batches[0].column("node").to_pylist()) == {"plant"}


async def test_a_whole_batch_goes_round_and_lands_in_order(host: Host, client: NodeClient) -> None:
    for first in range(0, 1000, 10):
        host.append(stored_rows(numbered(10, first), ["t"], ["a", "b"]))

    def drive() -> bool:
        incarnation, start = client.begin(SHARED)
        end = client.latest(SHARED, start, 10_000, 1 << 20, wait=0)
        client.plan(SHARED, start, end)
        assert client.planned(SHARED) == (start, end, 0, 1)
        client.finish(SHARED, 600, end, stage_all(client, host, incarnation, 600, end))
        client.finish(SHARED, start, 600, stage_all(client, host, incarnation, start, 600))
        moved = client.commit(SHARED, start, end)
        client.release(SHARED, end)
        return moved

    assert await asyncio.to_thread(drive)
    assert payloads(host.take("a")) == numbered(1000)[::2]
    assert payloads(host.take("b")) == numbered(1000)[1::2]
    assert host.log.weight == 0


async def test_refusals_and_stale_epochs_come_out_as_what_they_are(host: Host, client: NodeClient) -> None:
    host.append(stored_rows(numbered(4), ["t"], ["a"]))
    incarnation = host.log.incarnation
    batch = apply(stored_rows(numbered(1), ["t"], ["a"]), RouteRules("a"))

    def refused() -> None:
        with pytest.raises(RefusedError, match="consumed up to 0"):
            client.commit(SHARED, 2, 4, [])
        with pytest.raises(RefusedError, match="never staged"):
            client.commit(SHARED, 0, 4, [{"name": "x", "order": 0, "rows": 1, "checksum": 0}])
        with pytest.raises(RefusedError, match="no log"):
            client.begin("elsewhere")

    def stale() -> None:
        with pytest.raises(StaleEpochError):
            list(client.read_messages(incarnation, SHARED, 0, 4))
        with pytest.raises(StaleEpochError):
            client.stage(SHARED, "part", {"a": batch})
        with pytest.raises(StaleEpochError):
            client.finish(SHARED, 0, 4, [])
        with pytest.raises(StaleEpochError):
            client.commit(SHARED, 0, 4, [])
        with pytest.raises(StaleEpochError):
            client.latest(SHARED, 0, 10, 10, wait=0)

    await asyncio.to_thread(refused)
    host.gate.new_epoch()
    await asyncio.to_thread(stale)
    assert host.log.consumed == 0


async def test_a_call_without_the_token_is_refused_before_anything_is_looked_at(host: Host) -> None:
    def call() -> None:
        for token in ("", "wrong", host.service.access.token + "x"):
            stranger = NodeClient(Access(host.service.access.address, token), host.epoch)
            with pytest.raises(flight.FlightUnauthenticatedError):
                stranger.begin(SHARED)
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(stranger.read_messages(host.log.incarnation, SHARED, 0, 1))
            stranger.close()

    await asyncio.to_thread(call)


async def test_calls_that_make_no_sense_are_refused_and_the_service_lives_on(host: Host, client: NodeClient) -> None:
    options = flight.FlightCallOptions(headers=[(b"bridgehead-token", host.service.access.token.encode())])

    def call() -> None:
        with flight.FlightClient(host.service.access.address) as raw:
            for action, body in (("begin", b"{}"), ("begin", b"[]"), ("begin", b"\xff"), ("dance", b"{}")):
                with pytest.raises(flight.FlightServerError):
                    list(raw.do_action(flight.Action(action, body), options))
            with pytest.raises(flight.FlightServerError):
                raw.do_get(flight.Ticket(b"{}"), options).read_all()
            descriptor = flight.FlightDescriptor.for_command(b'{"epoch": 1, "log": "shared", "part": "x"}')
            writer, _ = raw.do_put(descriptor, MESSAGE, options)
            with pytest.raises(flight.FlightServerError, match="outbox's schema"):
                writer.close()
        assert client.begin(SHARED)[1] == 0

    await asyncio.to_thread(call)


def test_rows_whose_texts_end_behind_their_bytes_are_refused_before_anybody_stores_them() -> None:
    payloads = pa.array([b"ten  bytes", b"and 8.."], pa.binary())
    columns = [payloads if field.name == "payload" else pa.nulls(2, field.type) for field in OUTBOX]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, OUTBOX) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=OUTBOX))
    right, wrong = (np.array([0, 10, end], np.int32).tobytes() for end in (17, 4000))
    rows = pa.ipc.open_stream(sink.getvalue().to_pybytes().replace(right, wrong, 1)).read_next_batch()
    with pytest.raises(RefusedError, match="not what they say"):
        _as_it_says(rows)


async def test_the_latest_offset_waits_for_the_first_row(host: Host, client: NodeClient) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(client.latest, SHARED, 0, 10, 1 << 20, 60.0))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    host.append(stored_rows(numbered(3), ["t"], ["a"]))
    assert await waiting == 3


async def test_a_frozen_service_begins_no_batch_and_says_when_the_driver_rests(host: Host, client: NodeClient) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(client.latest, SHARED, 0, 10, 1 << 20, 60.0))
    await asyncio.wait({waiting}, timeout=0.05)
    assert not host.service.at_rest.is_set()
    host.service.freeze()
    assert await waiting == 0
    assert host.service.at_rest.is_set()
    host.append(stored_rows(numbered(3), ["t"], ["a"]))
    assert await asyncio.to_thread(client.latest, SHARED, 0, 10, 1 << 20, 60.0) == 0
    host.service.thaw()
    assert await asyncio.to_thread(client.latest, SHARED, 0, 10, 1 << 20, 60.0) == 3


async def test_rows_larger_than_any_bound_travel_both_ways(host: Host, client: NodeClient) -> None:
    large = [bytes([i]) * (20 << 20) for i in range(4)]
    host.append(stored_rows(large, ["t"], ["a"]))

    def drive() -> int:
        incarnation, _ = client.begin(SHARED)
        assert max(b.num_rows for b in client.read_messages(incarnation, SHARED, 0, 4)) == 1
        manifest = stage_all(client, host, incarnation, 0, 4)
        client.commit(SHARED, 0, 4, manifest)
        return len(manifest)

    assert await asyncio.to_thread(drive) == 1
    assert payloads(host.take("a")) == large


async def test_rows_of_many_routes_are_one_part_and_land_each_in_its_own_outbox(host: Host, client: NodeClient) -> None:
    host.append(stored_rows(numbered(10), ["t"], ["a", "b"]))
    host.append(stored_rows(numbered(10, 10), ["t"], ["b", "a"]))

    def drive() -> list[dict[str, object]]:
        incarnation, _ = client.begin(SHARED)
        manifest = stage_all(client, host, incarnation, 0, 14) + stage_all(client, host, incarnation, 14, 20)
        client.commit(SHARED, 0, 20, manifest)
        return manifest

    manifest = await asyncio.to_thread(drive)
    assert [part["rows"] for part in manifest] == [14, 6]
    [own_a], [own_b] = host.take("a"), host.take("b")
    assert payloads([own_a]) == numbered(10)[::2] + numbered(10, 10)[1::2]
    assert payloads([own_b]) == numbered(10)[1::2] + numbered(10, 10)[::2]


async def test_a_part_is_staged_when_it_is_large_enough_and_order_is_kept(host: Host, client: NodeClient) -> None:
    large = [bytes([i]) * (20 << 20) for i in range(8)]
    host.append(stored_rows(large, ["t"], ["a", "b"]))

    def drive() -> list[dict[str, object]]:
        incarnation, _ = client.begin(SHARED)
        manifest = stage_all(client, host, incarnation, 0, 8)
        client.commit(SHARED, 0, 8, manifest[::-1])
        return manifest

    assert len(await asyncio.to_thread(drive)) == 2
    assert payloads(host.take("a")) == large[::2]
    assert payloads(host.take("b")) == large[1::2]


async def test_the_client_connects_again_after_a_cut(host: Host, client: NodeClient) -> None:
    await asyncio.to_thread(client.begin, SHARED)
    address = host.service.access.address
    await host.service.stop()
    with pytest.raises(flight.FlightUnavailableError):
        await asyncio.to_thread(client.begin, SHARED)
    port = int(address.rpartition(":")[2])
    again = type(host.service)(host.gate, host.journal.logs, "plant", {}, Entrance(port=port))
    client = NodeClient(again.access, host.epoch)
    assert (await asyncio.to_thread(client.begin, SHARED))[1] == 0
    await again.stop()


def test_small_pieces_are_joined_and_large_ones_cut_within_the_bounds() -> None:
    small = [(i * 10, stored_rows(numbered(10, i * 10), ["t"], ["a"])) for i in range(100)]
    wide = (1000, stored_rows(numbered(3 * MAX_BATCH_ROWS, 1000), ["t"], ["a"]))
    behind_a_gap = (500_000, stored_rows([b"x" * (MAX_BATCH_BYTES // 2 + 1)] * 3, ["t"], ["a"]))
    batches = list(bounded([*small, wide, behind_a_gap]))
    assert all(b.num_rows <= MAX_BATCH_ROWS and (b.nbytes <= MAX_BATCH_BYTES or b.num_rows == 1) for _, b in batches)
    assert payloads([b for _, b in batches])[:-3] == numbered(1000 + 3 * MAX_BATCH_ROWS)
    assert [first for first, _ in batches][-3:] == [500_000, 500_001, 500_002]
    assert len(batches) <= 9
    assert batches[0][1].num_rows >= 1000


def test_what_the_rules_need_is_what_the_outbox_keeps_and_the_route() -> None:
    assert set(ROUTED.names) - {"route"} == set(OUTBOX.names) - {"wire_qos"}
