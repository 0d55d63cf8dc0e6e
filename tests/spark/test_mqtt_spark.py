"""``format("mqtt")`` with ``url`` in a plain Spark session, found by its name: source, sink, triggers, restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bridgehead.spark import prepare
from spark.session import light
from support.client import Client, Message
from support.mosquitto import Mosquitto

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        for name in ("PYSPARK_PYTHON", "JAVA_HOME"):  # what is made ready here is undone at the end
            environment.setenv(name, os.environ.get(name, ""))
        prepare()
        session = SparkSession.builder.master("local[2]").config(map=light()).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    mosquitto = Mosquitto(tmp_path_factory.mktemp("mosquitto")).start()
    yield mosquitto
    mosquitto.stop()


@pytest.fixture
def source(broker: Mosquitto, tmp_path: Path) -> dict[str, str]:
    name = tmp_path.name
    return {
        "url": f"mqtt://127.0.0.1:{broker.port}",
        "topics": f"{name}/#",
        "clientId": name,
        "journalDir": str(tmp_path / "journal"),
    }


@pytest.fixture
def device(broker: Mosquitto) -> Iterator[Client]:
    with Client(broker.port) as client:
        yield client


def numbered(topic: str, first: int, end: int, qos: int = 1) -> list[Message]:
    return [Message(f"{topic}/{n % 3}", str(n).encode(), qos) for n in range(first, end)]


def numbers(rows: list[Any]) -> list[int]:
    return [int(bytes(row["payload"])) for row in rows]


def test_a_query_reads_stops_and_goes_on_where_it_was(
    spark: SparkSession, device: Client, source: dict[str, str], tmp_path: Path
) -> None:
    taken: list[list[int]] = []

    def run(wanted: int, **trigger: Any) -> None:
        messages = spark.readStream.format("mqtt").options(**source, maxRowsPerTrigger="40", partitions="3").load()
        query = (
            messages.writeStream.foreachBatch(lambda rows, _: taken.append(numbers(rows.collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        if "availableNow" in trigger:
            assert query.awaitTermination(120)
        else:
            query.processAllAvailable()  # it has subscribed
            device.publish_all(numbered(source["clientId"], 0, wanted, 2))
            while sum(map(len, taken)) < wanted:
                query.processAllAvailable()
            query.stop()
        assert query.exception() is None

    run(100, processingTime="0 seconds")
    device.publish_all(numbered(source["clientId"], 100, 200))
    run(0, availableNow=True)
    assert [number for batch in taken for number in batch] == list(range(200))
    assert max(map(len, taken)) == 40


def test_a_batch_read_and_a_batch_write_cross(spark: SparkSession, device: Client, source: dict[str, str]) -> None:
    assert spark.read.format("mqtt").options(**source).load().count() == 0
    rows = spark.range(50).selectExpr(
        f"concat('{source['clientId']}/', id % 2) topic",
        "cast(id as string) payload",
        "2 qos",
        "map('site', 'seven') user_properties",
        "'text/plain' content_type",
    )
    rows.write.format("mqtt").mode("append").option("url", source["url"]).save()
    found = spark.read.format("mqtt").options(**source, qos="2").load().orderBy("journal_offset").collect()
    assert sorted(numbers(found)) == list(range(50))
    assert {row.content_type for row in found} == {"text/plain"}
    assert all(row.user_properties[0] == ("site", "seven") for row in found)
    assert len({row.user_properties[1].value for row in found}) == 50


def test_a_streaming_write_carries_ids_of_its_query(
    spark: SparkSession, device: Client, source: dict[str, str], tmp_path: Path
) -> None:
    name = source["clientId"]
    spark.read.format("mqtt").options(**source).load().count()  # the broker knows the session from here on
    device.subscribe(f"out/{name}/#")
    device.publish_all(numbered(name, 0, 20))
    query = (
        spark.readStream.format("mqtt")
        .options(**source)
        .load()
        .selectExpr("concat('out/', topic) topic", "payload")
        .writeStream.format("mqtt")
        .options(url=source["url"], checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    found = device.wait_for(20)
    assert [int(message.payload) for message in found] == list(range(20))
    ids = [message.properties["UserProperty"][0][1] for message in found]
    assert len(set(ids)) == 20
    assert all(each.startswith(f"{query.id}:0:") for each in ids)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "exactly one of the options"),
        ({"url": "mqtt://127.0.0.1", "topics": "a"}, "clientId: required"),
        ({"url": "mqtt://127.0.0.1", "topics": "a", "clientId": "c", "qos": "5"}, "qos: must be less than or equal to 2"),
    ],
)
def test_bad_options_are_named_before_anything_runs(spark: SparkSession, options: dict[str, str], text: str) -> None:
    with pytest.raises(PySparkException, match=text):
        spark.read.format("mqtt").options(**options).load().count()


def test_columns_that_no_message_has_are_named_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="value: no column of a message"):
        spark.sql("select 'x' value").write.format("mqtt").mode("append").option("url", "mqtt://127.0.0.1").save()


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    spark: SparkSession, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = json.loads((Path(__file__).parents[2] / "examples" / "mqtt_in_a_notebook.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    monkeypatch.setenv("MQTT_URL", f"mqtt://127.0.0.1:{broker.port}")
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert [float(row.text.removesuffix(" °C")) for row in names["found"]] == [round(20 + n * 0.8, 1) for n in range(88, 100)]
    assert len({pair.value for row in names["found"] for pair in row.user_properties if pair.key == "message-id"}) == 12
