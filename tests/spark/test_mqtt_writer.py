"""The writer of ``format("mqtt")`` with ``url``, called as a task calls it, against real brokers: nothing here needs a JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bridgehead.errors import RefusedError
from bridgehead.spark.brokerwriter import write_rows
from bridgehead.spark.options import Sink, parse
from support.client import Client
from support.mosquitto import Mosquitto
from support.refusing import RefusingRemote
from support.waiting import free_port

pytestmark = pytest.mark.mosquitto


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    mosquitto = Mosquitto(tmp_path_factory.mktemp("mosquitto"), window=20).start()
    yield mosquitto
    mosquitto.stop()


def sink(port: int, **options: str) -> Sink:
    return parse(Sink, {"url": f"mqtt://127.0.0.1:{port}", **options})


def numbered(count: int, topic: str = "t", size: int = 1000) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, size):
        part = range(first, min(first + size, count))
        yield pa.RecordBatch.from_pydict({"topic": [topic] * len(part), "payload": [str(n) for n in part]})


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_reach_the_broker_once_in_order(broker: Mosquitto, qos: int, version: str) -> None:
    topic = f"matrix/{qos}/{version}"
    with Client(broker.port) as client:
        client.subscribe(topic)
        done = write_rows(sink(broker.port, qos=str(qos), mqttVersion=version), numbered(2500, topic), "q:0:0")
        assert done.messages == 2500
        found = client.wait_for(2500)
        assert [int(message.payload) for message in found] == list(range(2500))
        assert {message.qos for message in found} == {qos}


def test_every_message_has_an_id_that_is_the_same_again(broker: Mosquitto) -> None:
    with Client(broker.port) as client:
        client.subscribe("ids")
        for _ in range(2):
            write_rows(sink(broker.port), numbered(3, "ids"), "query:7:2")
        ids = [message.properties["UserProperty"] for message in client.wait_for(6)]
        assert ids[:3] == ids[3:] == [[("message-id", f"query:7:2:{row}")] for row in range(3)]


def test_a_broker_that_goes_away_in_the_middle_is_waited_for(tmp_path: Path) -> None:
    """Everything arrives; doubles, which a lost session may bring, have the id of their first."""
    broker = Mosquitto(tmp_path, keeps=True, window=50).start()
    with Client(broker.port, lasting=True, client_id="listener") as client:
        client.subscribe("t")
        half_way = threading.Event()

        def slowly() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(numbered(20_000, size=500)):
                yield batch
                if number == 20:
                    half_way.set()

        def cut() -> None:
            assert half_way.wait(60)
            broker.stop()
            broker.start()

        cutting = threading.Thread(target=cut)
        cutting.start()
        done = write_rows(sink(broker.port), slowly(), "q:0:0")
        cutting.join()
        assert done.messages == 20_000
        client.wait_until(lambda found: len({message.payload for message in found}) == 20_000, "everything is there")
        seen = {message.payload: set[str]() for message in client.messages}
        for message in client.messages:
            seen[message.payload].add(message.properties["UserProperty"][0][1])
        assert all(len(ids) == 1 for ids in seen.values())
    broker.stop()


def test_a_message_that_is_refused_fails_the_task_with_the_reason() -> None:
    remote = RefusingRemote(lambda topic, payload, before: 0x87 if payload == b"3" else 0)
    with pytest.raises(RefusedError, match=r"1 with not authorized \(0x87\)"):
        write_rows(sink(remote.port), numbered(5), "q:0:0")
    remote.close()


def test_a_message_that_is_refused_for_a_moment_is_tried_again() -> None:
    remote = RefusingRemote(lambda topic, payload, before: 0x97 if payload == b"3" and not before else 0)
    assert write_rows(sink(remote.port), numbered(5), "q:0:0").messages == 5
    remote.close()


def test_a_broker_that_is_not_there_fails_the_task_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="3 messages are not acknowledged: cannot reach"):
        write_rows(sink(free_port(), giveUpAfter="1"), numbered(3), "q:0:0")


def test_a_task_without_rows_does_not_connect() -> None:
    assert write_rows(sink(free_port(), giveUpAfter="1"), iter([]), "q:0:0").messages == 0
