"""``format("mqtt")`` with ``node``: a running node's journal in somebody's own Spark session, also through kills of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.plant import Plant
from spark.session import plain_session

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with plain_session() as session:
        yield session


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    plant = Plant(tmp_path)
    yield plant
    plant.close()


def numbers(rows: list[Any]) -> list[int]:
    return [int(bytes(row["payload"])) for row in rows]


def test_delivered_messages_are_read_again_also_by_the_next_life(spark: SparkSession, plant: Plant) -> None:
    plant.publish(0, 300)
    frame = spark.read.format("mqtt").options(**plant.options(partitions="3")).load()
    rows = frame.orderBy("journal_offset").collect()
    assert numbers(rows) == list(range(300))
    assert {(row.node, row.bridge, row.qos) for row in rows} == {("edge", "cloud", 1)}
    assert [row.journal_offset for row in rows] == sorted({row.journal_offset for row in rows})
    before = plant.node.routes("cloud", "push")[0]["delivered"]
    plant.kill()
    plant.publish(300, 400)
    every = spark.read.format("mqtt").options(**plant.options()).load()
    assert sorted(numbers(every.collect())) == list(range(400))
    moment = rows[-1].received_at.astimezone().isoformat()
    later = spark.read.format("mqtt").options(**plant.options(startingOffsets=moment)).load()
    assert set(range(300, 400)) <= set(numbers(later.collect())) < set(range(400))
    assert plant.node.routes("cloud", "push")[0]["delivered"] == before + 100, "nobody reads by delivering again"
    retained = plant.node.status()["journal"]["inline"]["retained"]
    assert (retained["rows"], retained["earliestOffset"]) == (400, 0)


def test_a_query_goes_on_from_its_checkpoint_through_a_kill_of_the_node(
    spark: SparkSession, plant: Plant, tmp_path: Path
) -> None:
    taken: list[list[int]] = []

    def run() -> None:
        messages = spark.readStream.format("mqtt").options(**plant.options(maxRowsPerTrigger="40", partitions="2")).load()
        query = (
            messages.writeStream.foreachBatch(lambda rows, _: taken.append(numbers(rows.orderBy("journal_offset").collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    plant.publish(0, 100)
    run()
    plant.kill()
    plant.publish(100, 200)
    run()
    assert [number for batch in taken for number in batch] == list(range(200))
    assert max(map(len, taken)) == 40


def test_a_wrong_token_and_a_wrong_route_are_said(spark: SparkSession, plant: Plant) -> None:
    with pytest.raises(PySparkException, match="valid token"):
        spark.read.format("mqtt").options(**plant.options(token="another")).load().count()
    with pytest.raises(PySparkException, match="no route x here"):
        spark.read.format("mqtt").options(**plant.options(route="x")).load().count()
