"""``format("mqtt")`` with ``node`` as a sink: rows come to routes and subscribers of the node, each batch once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark.plant import Plant
from spark.session import plain_session
from support.client import Client

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with plain_session() as session:
        yield session


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    plant = Plant(tmp_path_factory.mktemp("plant"))
    yield plant
    plant.close()


def numbers(client: Client, topic: str) -> list[int]:
    return [int(payload) for payload in client.topics().get(topic, [])]


def test_a_batch_that_spark_runs_again_is_published_once(spark: SparkSession, plant: Plant, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    plant.publish(0, 100)

    def run() -> None:
        rows = spark.readStream.format("mqtt").options(**plant.options(maxRowsPerTrigger="40", route=plant.route)).load()
        query = (
            rows.selectExpr("'made/again' topic", "payload", "1 qos", "map('by', 'spark') user_properties")
            .writeStream.format("mqtt")
            .options(**plant.options(), checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    with Client(plant.remote.port) as remote, Client(plant.node.port) as local:
        remote.subscribe("made/again")
        local.subscribe("made/again")
        run()
        # As if the driver had died between the node's commit and its own note of it.
        last = checkpoint / "commits" / str(max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")))
        (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
        last.unlink()
        plant.kill()
        run()
        plant.publish(100, 120)
        run()
        plant.delivered()
        remote.wait_for(120)
        assert sorted(numbers(remote, "made/again")) == list(range(120))
        assert all(("by", "spark") in message.properties["UserProperty"] for message in remote.barrier())


def frame(spark: SparkSession, topic: str, rows: int = 10) -> DataFrame:
    return spark.range(rows).selectExpr(f"'{topic}' topic", "cast(id as string) payload")


def test_a_write_with_a_name_is_done_once_and_one_without_each_time(spark: SparkSession, plant: Plant) -> None:
    with Client(plant.remote.port) as remote:
        remote.subscribe("made/#")
        for _ in range(2):
            named = frame(spark, "made/named").write.format("mqtt").mode("append")
            named.options(**plant.options(txnAppId="nightly", txnVersion="7")).save()
            frame(spark, "made/plain", 3).write.format("mqtt").mode("append").options(**plant.options()).save()
        plant.delivered()
        remote.wait_for(16)
        assert sorted(numbers(remote, "made/named")) == list(range(10))
        assert sorted(numbers(remote, "made/plain")) == [0, 0, 1, 1, 2, 2]


def test_what_cannot_be_published_is_said(spark: SparkSession, plant: Plant) -> None:
    with pytest.raises(PySparkException, match="payload"):
        spark.sql("SELECT 'made/x' topic").write.format("mqtt").mode("append").options(**plant.options()).save()
    with pytest.raises(PySparkException, match="made/#"):
        frame(spark, "made/#").write.format("mqtt").mode("append").options(**plant.options()).save()
