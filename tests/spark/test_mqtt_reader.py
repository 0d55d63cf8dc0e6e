"""The reader of ``format("mqtt")`` with ``url``, called as Spark calls it, against a real broker: nothing here needs a JVM.

What Spark does with it is in test_mqtt_spark.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from bridgehead.columns.schema import MESSAGE
from bridgehead.errors import RefusedError, StartError
from bridgehead.spark.brokerreader import BrokerReader, BrokerStreamReader, Offset
from bridgehead.spark.options import Source, parse
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.waiting import free_port, until

pytestmark = pytest.mark.mosquitto

Readers = Callable[..., BrokerStreamReader]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    mosquitto = Mosquitto(tmp_path_factory.mktemp("mosquitto")).start()
    yield mosquitto
    mosquitto.stop()


@pytest.fixture
def options(broker: Mosquitto, tmp_path: Path) -> dict[str, str]:
    """A journal, a client id and topics for this test alone."""
    name = tmp_path.name
    url = f"mqtt://127.0.0.1:{broker.port}"
    return {"url": url, "topics": f"{name}/#", "clientId": name, "journalDir": str(tmp_path / "journal")}


@pytest.fixture
def readers(options: dict[str, str]) -> Iterator[Readers]:
    made: list[BrokerStreamReader] = []

    def reader(**more: str) -> BrokerStreamReader:
        made.append(BrokerStreamReader(parse(Source, {**options, **more})))
        return made[-1]

    yield reader
    for each in made:
        each.stop()


@pytest.fixture
def device(broker: Mosquitto) -> Iterator[Client]:
    with Client(broker.port) as client:
        yield client


def rows_of(reader: BrokerStreamReader | BrokerReader, partitions: Any) -> list[dict[str, Any]]:
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    assert all(batch.schema == MESSAGE for batch in batches)
    return pa.Table.from_batches(batches, MESSAGE).to_pylist()


def take(reader: BrokerStreamReader, start: Offset, count: int) -> tuple[Offset, list[dict[str, Any]]]:
    """So many rows from here on, and where they end."""
    end = start
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        nonlocal end
        before, end = end, reader.latestOffset(end, ReadMaxRows(100_000))
        found.extend(rows_of(reader, reader.partitions(before, end)))
        return len(found) >= count

    until(enough, f"{count} rows come", detail=lambda: found)
    assert len(found) == count
    return end, found


def take_some(reader: BrokerStreamReader, start: Offset) -> tuple[Offset, list[dict[str, Any]]]:
    """The first rows from here on, and where they end."""
    end = start

    def some() -> bool:
        nonlocal end
        end = reader.latestOffset(start, ReadMaxRows(100))
        return end != start

    until(some, "rows come")
    return end, rows_of(reader, reader.partitions(start, end))


def payloads(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["payload"]) for row in rows]


def numbered(topic: str, count: int, qos: int = 1, first: int = 0) -> list[Message]:
    return [Message(f"{topic}/{n % 3}", str(n).encode(), qos) for n in range(first, first + count)]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_come_once_in_order_with_rising_offsets(
    readers: Readers, device: Client, options: dict[str, str], qos: int, version: str
) -> None:
    reader = readers(qos="2", mqttVersion=version)
    start = reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 200, qos))
    _, rows = take(reader, start, 200)
    assert payloads(rows) == list(range(200))
    assert {row["qos"] for row in rows} == {qos}
    assert [row["journal_offset"] for row in rows] == list(range(start["offset"], start["offset"] + 200))


def test_everything_that_a_message_says_is_a_column(readers: Readers, device: Client, options: dict[str, str]) -> None:
    reader = readers()
    start = reader.initialOffset()
    said = {
        "MessageExpiryInterval": 1000,
        "PayloadFormatIndicator": 1,
        "ContentType": "text/plain",
        "ResponseTopic": "answers/here",
        "CorrelationData": b"\x00\xff",
        "UserProperty": [("a", "1"), ("a", "2")],
    }
    topic = f"{options['clientId']}/t"
    device.publish_all([Message(topic, b"hot", 1, True, said)])
    _, (row,) = take(reader, start, 1)
    assert row.pop("received_at").year >= 2026
    assert row.pop("message_expiry") in (999, 1000)
    assert row == {
        "topic": topic,
        "payload": b"hot",
        "qos": 1,
        "retain": True,
        "client_id": options["clientId"],
        "route": None,
        "bridge": None,
        "payload_format": 1,
        "content_type": "text/plain",
        "response_topic": "answers/here",
        "correlation_data": b"\x00\xff",
        "user_properties": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
        "node": None,
        "journal_partition": 0,
        "journal_offset": start["offset"],
    }


def test_a_range_that_was_not_committed_is_read_again_the_same(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    """QoS 0 too: what Spark has seen once it can see again, also after everything was killed."""
    reader = readers(qos="2")
    start = reader.initialOffset()
    device.publish_all([message for qos in (0, 1, 2) for message in numbered(options["clientId"], 10, qos)])
    end, rows = take(reader, start, 30)
    assert rows_of(reader, reader.partitions(start, end)) == rows
    kill_journal(options)
    assert rows_of(reader, reader.partitions(start, end)) == rows
    reader.stop()
    again = readers(qos="2")
    assert rows_of(again, again.partitions(start, end)) == rows


def test_a_journal_that_is_killed_loses_nothing_and_its_reader_goes_on(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    reader = readers(qos="2")
    start = reader.initialOffset()
    found: list[dict[str, Any]] = []
    for life in range(3):
        device.publish_all(numbered(options["clientId"], 500, 2, first=life * 500))
        kill_journal(options)
        start, rows = take(reader, start, 500)
        found += rows
        reader.commit(start)
    assert payloads(found) == list(range(1500))


def test_what_comes_while_no_reader_runs_is_kept_by_the_broker(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    reader = readers()
    start = reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 5))
    end, _ = take(reader, start, 5)
    reader.stop()
    device.publish_all(numbered(options["clientId"], 7, first=5))
    _, rows = take(readers(), end, 7)
    assert payloads(rows) == list(range(5, 12))


def test_a_reader_that_stops_has_acknowledged_what_it_took(readers: Readers, device: Client, options: dict[str, str]) -> None:
    """At QoS 1 nothing comes twice because of a stop in the middle of a flow."""
    first = readers()
    end = first.initialOffset()
    first.stop()
    found: list[int] = []
    for lap in range(3):
        reader = readers()
        flow = threading.Thread(target=device.publish_all, args=(numbered(options["clientId"], 4000, first=4000 * lap),))
        flow.start()
        end, rows = take_some(reader, end)
        found += payloads(rows)
        reader.stop()
        flow.join()
    found += payloads(take(readers(), end, 12_000 - len(found))[1])
    assert found == list(range(12_000))


def test_committed_rows_leave_the_journal_and_no_others(readers: Readers, device: Client, options: dict[str, str]) -> None:
    reader = readers()
    start = reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 10))
    middle, _ = take(reader, start, 10)
    device.publish_all(numbered(options["clientId"], 10, first=10))
    end, rows = take(reader, middle, 10)
    reader.commit(middle)
    assert rows_of(reader, reader.partitions(middle, end)) == rows
    with pytest.raises(RefusedError, match="gone"):
        rows_of(reader, reader.partitions(start, end))


@pytest.mark.parametrize(("size", "rows"), [(10, 7), (3000, 3)], ids=["rows", "bytes"])
def test_limits_in_rows_and_in_bytes_hold(
    readers: Readers, device: Client, options: dict[str, str], size: int, rows: int
) -> None:
    reader = readers(maxRowsPerTrigger="7", maxBytesPerTrigger="10KiB")
    start = reader.initialOffset()
    device.publish_all([Message(f"{options['clientId']}/t", b"x" * size, 1)] * 20)
    reader.prepareForTriggerAvailableNow()
    taken = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        taken.append(len(rows_of(reader, reader.partitions(start, end))))
        start = end
    assert sum(taken) == 20
    assert max(taken) == rows


def test_available_now_takes_what_the_broker_has_kept_and_nothing_later(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    reader = readers()
    start = reader.initialOffset()
    reader.stop()
    device.publish_all(numbered(options["clientId"], 3000))
    now = readers()
    now.prepareForTriggerAvailableNow()
    device.publish_all(numbered(options["clientId"], 10, first=3000))
    end = now.latestOffset(start, ReadAllAvailable())
    assert payloads(rows_of(now, now.partitions(start, end))) == list(range(3000))
    assert now.latestOffset(end, ReadAllAvailable()) == end


def test_so_many_contiguous_ranges_as_were_asked_for(readers: Readers, device: Client, options: dict[str, str]) -> None:
    reader = readers(partitions="4", qos="2")  # at QoS 1 what the killed one had not acknowledged would come again
    start = reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 10, 2))
    kill_journal(options)  # the next life gives offsets far above: ranges are shared by rows, not by offsets
    device.publish_all(numbered(options["clientId"], 30, 2, first=10))
    end, _ = take(reader, start, 40)
    ranges = list(reader.partitions(start, end))
    assert [len(rows_of(reader, [each])) for each in ranges] == [10] * 4
    assert payloads(rows_of(reader, ranges)) == list(range(40))


def test_a_new_query_starts_where_it_is_told(readers: Readers, device: Client, options: dict[str, str]) -> None:
    reader = readers()
    start = reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 10))
    end, rows = take(reader, start, 10)
    reader.stop()
    for wanted, offset in {"earliest": start["offset"], str(rows[4]["journal_offset"]): rows[4]["journal_offset"]}.items():
        again = readers(startingOffsets=wanted)
        assert again.initialOffset()["offset"] == offset
        again.stop()
    latest = readers(startingOffsets="latest")
    begin = latest.initialOffset()
    assert begin["offset"] >= end["offset"]
    device.publish_all(numbered(options["clientId"], 1, first=10))
    assert payloads(take(latest, begin, 1)[1]) == [10]
    latest.stop()
    with pytest.raises(RefusedError, match="startingOffsets 99999999999 is not in the journal"):
        readers(startingOffsets="99999999999").initialOffset()


def test_a_checkpoint_of_another_journal_is_refused_or_begins_with_what_is_there(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    reader = readers()
    reader.initialOffset()
    device.publish_all(numbered(options["clientId"], 3))
    foreign = {"incarnation": "another", "offset": 17}
    with pytest.raises(RefusedError, match=r"belongs to another journal.*failOnDataLoss"):
        reader.latestOffset(foreign, ReadAllAvailable())
    reader.stop()
    forgiving = readers(failOnDataLoss="false")
    assert forgiving.partitions({"incarnation": "another", "offset": 3}, foreign) == []
    assert payloads(take(forgiving, foreign, 3)[1]) == [0, 1, 2]


def test_a_second_reader_of_a_journal_is_told_so(readers: Readers) -> None:
    readers().initialOffset()
    with pytest.raises(StartError, match="in use by another reader"):
        readers().initialOffset()


def test_a_topic_that_is_no_longer_wanted_is_unsubscribed(readers: Readers, device: Client, options: dict[str, str]) -> None:
    name = options["clientId"]
    first = readers(topics=f"{name}/old/#,{name}/both")
    start = first.initialOffset()
    first.stop()
    device.publish_all([Message(f"{name}/old/kept", b"1", 1)])
    second = readers(topics=f"{name}/new,{name}/both")
    second.prepareForTriggerAvailableNow()
    device.publish_all([Message(f"{name}/{topic}", b"2", 1) for topic in ("old/x", "both", "new")])
    second._last = None
    _, rows = take(second, start, 2)
    assert [row["topic"] for row in rows] == [f"{name}/both", f"{name}/new"]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_overlapping_filters_bring_a_message_once(
    readers: Readers, device: Client, options: dict[str, str], version: str
) -> None:
    name = options["clientId"]
    reader = readers(topics=f"{name}/+/x,{name}/a/+,{name}/a/x", mqttVersion=version)
    start = reader.initialOffset()
    topics = [f"{name}/a/x", f"{name}/a/y", f"{name}/b/y", f"{name}/b/x"]
    device.publish_all([Message(topic, str(n).encode(), 1) for n, topic in enumerate(topics)])
    end, rows = take(reader, start, 3)
    assert payloads(rows) == [0, 1, 3]
    reader.stop()
    fewer = readers(topics=f"{name}/+/x", mqttVersion=version)  # in the session that the broker has kept
    fewer.prepareForTriggerAvailableNow()
    device.publish_all([Message(topic, str(n).encode(), 1) for n, topic in enumerate(topics, 4)])
    fewer._last = None
    assert payloads(take(fewer, end, 2)[1]) == [4, 7]


def test_a_batch_read_has_what_the_broker_has_kept_and_commits_nothing(
    readers: Readers, device: Client, options: dict[str, str]
) -> None:
    reader = readers()
    start = reader.initialOffset()
    reader.stop()
    device.publish_all(numbered(options["clientId"], 20))
    for partitions in ("1", "3"):
        batch = BrokerReader(parse(Source, {**options, "partitions": partitions}))
        ranges = batch.partitions()
        assert len(ranges) == int(partitions)
        assert payloads(rows_of(batch, ranges)) == list(range(20))
    assert payloads(take(readers(), start, 20)[1]) == list(range(20))


def test_a_broker_that_was_never_reached_is_an_error_with_its_reason(readers: Readers) -> None:
    with pytest.raises(RefusedError, match=r"cannot reach 127\.0\.0\.1"):
        readers(url=f"mqtt://127.0.0.1:{free_port()}").initialOffset()


def test_a_broker_that_is_away_later_is_waited_for(tmp_path: Path, readers: Readers) -> None:
    broker = Mosquitto(tmp_path / "own", keeps=True).start()
    reader = readers(url=f"mqtt://127.0.0.1:{broker.port}", topics="t/#")
    start = reader.initialOffset()
    broker.stop()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    broker.start()
    with Client(broker.port) as device:
        device.publish_all(numbered("t", 3))
        assert payloads(take(reader, start, 3)[1]) == [0, 1, 2]
    broker.stop()


def kill_journal(options: dict[str, str]) -> None:
    """Kill the process that owns the journal, as a power cut would."""
    (found,) = [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and options["journalDir"] in " ".join(f.path for f in child.open_files())
    ]
    os.kill(found.pid, signal.SIGKILL)
    until(lambda: not found.is_running() or found.status() == psutil.STATUS_ZOMBIE, "it is gone")
