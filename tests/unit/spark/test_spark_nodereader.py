"""The readers of ``node`` against a real Flight service, without Spark: offsets, limits, what is gone, another life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import making.rows
from bridgehead import clock
from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import MESSAGE
from bridgehead.errors import NotRetainedError, RefusedError, SettingsError
from bridgehead.pipeline.entrance import Entrance
from bridgehead.spark.nodeoptions import NodeSink, NodeSource
from bridgehead.spark.nodereader import NodeReader, NodeStreamReader
from bridgehead.spark.options import parse
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED
from bridgehead.storage.retention import Retention
from making.certificates import Authority
from spark.host import Host, stored_rows

T = TypeVar("T")

LATER = "2200-01-01T00:00:00Z"
KEPT = 100 * 10_000  # bytes: enough for all but one test


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(tmp_path, routes=["a", "b"], retention=Retention(max_bytes=KEPT))
    yield host
    await host.service.stop()


def options(host: Host, **given: str) -> dict[str, str]:
    return {"node": host.service.access.address, "token": host.service.access.token, **given}


def stream(host: Host, **given: str) -> NodeStreamReader:
    source = parse(NodeSource, options(host, **given))
    return NodeStreamReader(source, source.access())


def batch(host: Host, **given: str) -> NodeReader:
    source = parse(NodeSource, options(host, **given))
    return NodeReader(source, source.access())


def append(host: Host, first: int, rows: int, routes: Sequence[str] = ("a",)) -> None:
    host.append(stored_rows([b"%d" % i for i in range(first, first + rows)], ["t"], list(routes)))


def rows_at(time_us: int, first: int, rows: int) -> Batch:
    return making.rows.stored_rows(*making.rows.numbered(first, rows, received_at=time_us))


def consume(host: Host) -> None:
    """What the node's own pipeline does when a batch is done."""
    changes = Changes()
    host.log.consume(changes, host.log.visible)
    host.log.trim(changes, host.log.visible)
    host.engine.write(changes)


def payloads(reader: Any, partitions: Sequence[Any]) -> list[int]:
    batches = [rows for partition in partitions for rows in reader.read(partition)]
    assert all(rows.schema == MESSAGE for rows in batches)
    return [int(payload) for rows in batches for payload in rows.column("payload").to_pylist()]


async def asked(call: Callable[[], T]) -> T:
    """Readers speak from another thread: the node's loop is here."""
    return await asyncio.to_thread(call)


async def test_consumed_rows_are_read_again_and_nothing_is_consumed_by_it(host: Host) -> None:
    append(host, 0, 10)
    consume(host)
    append(host, 10, 5)
    before = host.log.consumed, host.log.released, host.log.waiting
    reader = batch(host)
    assert await asked(lambda: payloads(reader, reader.partitions())) == list(range(15))
    assert (host.log.consumed, host.log.released, host.log.waiting) == before


async def test_a_stream_goes_on_where_it_was_in_bites_of_the_limit(host: Host) -> None:
    append(host, 0, 100)
    consume(host)
    reader = stream(host)
    offset = await asked(reader.initialOffset)
    got: list[int] = []
    for _ in range(4):
        end = await asked(lambda start=offset: reader.latestOffset(start, ReadMaxRows(30)))  # type: ignore[misc]
        got += await asked(lambda start=offset, end=end: payloads(reader, reader.partitions(start, end)))  # type: ignore[misc]
        offset = end
    assert got == list(range(100))
    assert offset["offsets"] == {SHARED: 100}


async def test_the_limit_in_bytes_holds_too(host: Host) -> None:
    for _ in range(10):
        host.append(stored_rows([bytes(10_000)], ["t"], ["a"]))
    reader = stream(host, maxBytesPerTrigger="35000")
    end = await asked(lambda: reader.latestOffset(reader.initialOffset(), ReadMaxRows(1000)))
    assert end["offsets"] == {SHARED: 3}
    everything = await asked(lambda: reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    assert everything["offsets"] == {SHARED: 10}


async def test_it_waits_at_the_node_for_the_first_row(host: Host) -> None:
    reader = stream(host, startingOffsets="latest")
    start = await asked(reader.initialOffset)
    came = asyncio.Event()
    when_more = host.log.when_more
    host.log.when_more = lambda tell: (when_more(tell), came.set())[0]  # type: ignore[method-assign]
    waiting = asyncio.create_task(asked(lambda: reader.latestOffset(start, ReadMaxRows(10))))
    await came.wait()
    append(host, 0, 3)
    assert (await waiting)["offsets"] == {SHARED: 3}


async def test_a_batch_is_split_into_as_many_ranges_as_asked_for(host: Host) -> None:
    append(host, 0, 10)
    reader = batch(host, partitions="4")
    partitions = await asked(reader.partitions)
    assert len(partitions) == 4
    assert await asked(lambda: payloads(reader, partitions)) == list(range(10))


async def test_offsets_moments_and_both_ends_of_a_batch_can_be_named(host: Host) -> None:
    append(host, 0, 5)
    consume(host)
    host.append(rows_at(clock.moment_us(LATER), 5, 5))
    for given, expected in [
        ({"startingOffsets": "3"}, range(3, 10)),
        ({"startingOffsets": '{"shared": 4}', "endingOffsets": "6"}, range(4, 6)),
        ({"startingOffsets": LATER}, range(5, 10)),
        ({"startingOffsets": "2200-01-01T01:00+01:00", "endingOffsets": "2200-01-01T00:00:00.000001Z"}, range(5, 10)),
        ({"endingOffsets": LATER}, range(5)),
        ({"startingOffsets": "2200-01-02"}, range(0)),
        ({"startingOffsets": "1970-01-01"}, range(10)),
        ({"startingOffsets": "latest"}, range(0)),
    ]:
        reader = batch(host, **given)
        assert await asked(lambda reader=reader: payloads(reader, reader.partitions())) == list(expected), given  # type: ignore[misc]


async def test_rows_of_one_route_or_bridge_are_chosen(host: Host) -> None:
    append(host, 0, 10, ["a", "b"])
    for given, expected in [({"route": "b"}, range(1, 10, 2)), ({"bridge": "cloud"}, range(10)), ({"log": SHARED}, range(10))]:
        reader = batch(host, **given)
        assert await asked(lambda reader=reader: payloads(reader, reader.partitions())) == list(expected)  # type: ignore[misc]
    for given in ({"route": "c"}, {"bridge": "c"}, {"log": "c"}):
        with pytest.raises(RefusedError, match=r"no (route|bridge|log) c"):
            await asked(batch(host, **given).partitions)


async def test_what_is_not_retained_any_more_is_said_or_left_out(host: Host) -> None:
    append(host, 0, 10)
    consume(host)
    reader = stream(host)
    start = await asked(reader.initialOffset)
    end = await asked(lambda: reader.latestOffset(start, ReadMaxRows(1000)))
    partitions = await asked(lambda: reader.partitions(start, end))
    append(host, 10, 20_000)
    append(host, 20_010, 10)
    consume(host)
    assert host.log.trimmed == 20_010
    with pytest.raises(NotRetainedError, match=r"\[0, 10\) of the log shared"):
        await asked(lambda: payloads(reader, partitions))
    with pytest.raises(RefusedError, match=r"offsets \[10, 20010\) of the log shared.*failOnDataLoss"):
        await asked(lambda: reader.latestOffset(end, ReadMaxRows(1000)))
    lenient = stream(host, failOnDataLoss="false")
    assert await asked(lambda: payloads(lenient, partitions)) == []
    last = await asked(lambda: lenient.latestOffset(end, ReadMaxRows(1000)))
    assert await asked(lambda: payloads(lenient, lenient.partitions(end, last))) == list(range(20_010, 20_020))


async def test_a_checkpoint_of_another_life_is_refused_or_begins_anew(host: Host) -> None:
    append(host, 0, 3)
    foreign = {"incarnation": "another", "offsets": {SHARED: 2}}
    with pytest.raises(RefusedError, match="belongs to the journal another"):
        await asked(lambda: stream(host).latestOffset(foreign, ReadMaxRows(10)))
    lenient = stream(host, failOnDataLoss="false")
    end = await asked(lambda: lenient.latestOffset(foreign, ReadMaxRows(10)))
    assert await asked(lambda: payloads(lenient, lenient.partitions(foreign, end))) == [0, 1, 2]


async def test_available_now_ends_at_what_was_there_when_it_began(host: Host) -> None:
    append(host, 0, 5)
    reader = stream(host)
    start = await asked(reader.initialOffset)
    await asked(reader.prepareForTriggerAvailableNow)
    append(host, 5, 5)
    end = await asked(lambda: reader.latestOffset(start, ReadMaxRows(100)))
    assert end["offsets"] == {SHARED: 5}
    assert await asked(lambda: reader.latestOffset(end, ReadMaxRows(100))) == end


async def test_a_log_that_comes_up_later_is_read_from_its_beginning(host: Host) -> None:
    reader = stream(host)
    start = await asked(reader.initialOffset)
    changes = Changes()
    other = host.journal.log("other")
    other.append(changes, stored_rows([b"7"], ["t"], ["a"]))
    host.engine.write(changes)
    other.publish()
    end = await asked(lambda: reader.latestOffset(start, ReadMaxRows(100)))
    assert end["offsets"] == {SHARED: 0, "other": 1}
    assert await asked(lambda: payloads(reader, reader.partitions(start, end))) == [7]
    with pytest.raises(RefusedError, match="of which log"):
        await asked(stream(host, startingOffsets="3").initialOffset)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"node": "http://h:1"}, "node"),
        ({"node": "grpc://h"}, "node"),
        ({"startingOffsets": "yesterday"}, "startingOffsets"),
        ({"startingOffsets": '{"shared": "x"}'}, "startingOffsets"),
        ({"log": "a", "route": "b"}, ""),
        ({"caFile": "ca.pem"}, ""),
        ({"topics": "a/#"}, "topics"),
        ({"partitions": "0"}, "partitions"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(given: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(NodeSource, {"node": "grpc://127.0.0.1:1", "token": "t", **given})
    assert [path for path, _ in caught.value.faults] == [fault]


def test_a_token_is_needed() -> None:
    with pytest.raises(SettingsError) as caught:
        parse(NodeSource, {"node": "grpc://127.0.0.1:1"})
    assert [path for path, _ in caught.value.faults] == ["token"]


def test_a_write_has_a_name_and_a_number_or_neither() -> None:
    given = {"node": "grpc://127.0.0.1:1", "token": "t", "topic": "a"}
    assert parse(NodeSink, {**given, "txnAppId": "nightly", "txnVersion": "3"}).txn_version == 3
    with pytest.raises(SettingsError, match="belong together"):
        parse(NodeSink, {**given, "txnVersion": "3"})


async def test_certificates_are_shown_and_asked_for_by_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.vouch("node", "127.0.0.1")
    entrance = Entrance(cert=cert.read_text(), key=key.read_text(), client_ca=authority.cert.read_text())
    host = Host(tmp_path, routes=["a"], retention=Retention(max_bytes=KEPT), entrance=entrance)
    append(host, 0, 3)
    own_cert, own_key = authority.vouch("guest", "127.0.0.1")
    files = {"caFile": str(authority.cert), "certFile": str(own_cert), "keyFile": str(own_key)}
    reader = batch(host, **files)
    assert await asked(lambda: payloads(reader, reader.partitions())) == [0, 1, 2]
    with pytest.raises(SettingsError, match="caFile: cannot be read"):
        batch(host, **{**files, "caFile": str(tmp_path / "none.pem")})
    await host.service.stop()
