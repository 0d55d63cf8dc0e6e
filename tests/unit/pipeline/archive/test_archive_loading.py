"""A committed batch is handed to the format's own writer, under a number by which a format may know that it has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridgehead.columns.schema import TIMESTAMP
from bridgehead.errors import ArchiveError
from bridgehead.pipeline.archive.loading import LoadingDesk
from bridgehead.pipeline.archive.spec import ArchiveSpec, Published
from bridgehead.pipeline.archive.writer import ArchiveWriter


class Spark:
    """As much of a session as is used: reads Parquet files, and a writer that knows transactions as Delta does."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.told: dict[str, Any] = {}
        self.seen: dict[str, int] = {}
        self.error: Exception | None = None
        self.read = self.write = self
        self._loaded: list[int] = []

    def parquet(self, *paths: str) -> Self:
        self._loaded = [n for path in paths for n in pq.read_table(path).column("n").to_pylist()]
        return self

    def format(self, name: str) -> Self:
        self.told = {"format": name}
        return self

    def mode(self, name: str) -> Self:
        self.told["mode"] = name
        return self

    def options(self, **given: str) -> Self:
        self.told.update(given)
        return self

    def partitionBy(self, *columns: str) -> Self:
        self.told["partitionBy"] = columns
        return self

    def save(self, path: str) -> None:
        self.told["path"] = path
        if self.error is not None:
            raise self.error
        version = int(self.told["txnVersion"])
        if self.seen.get(self.told["txnAppId"], 0) < version:
            self.seen[self.told["txnAppId"]] = version
            self.rows += self._loaded


@pytest.fixture
def spec(tmp_path: Path) -> ArchiveSpec:
    return ArchiveSpec(str(tmp_path / "lake"), "plant", "cloud.push.1234", "cloud", format="delta")


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def desk(spec: ArchiveSpec, spark: Spark) -> LoadingDesk:
    return LoadingDesk(spec, "life", spark, None)


def committed(spec: ArchiveSpec, desk: LoadingDesk, *numbers: int) -> Published:
    task = ArchiveWriter(spec, 0)
    task.add(pa.RecordBatch.from_pydict({"n": list(numbers), "received_at": pa.array([0] * len(numbers), TIMESTAMP)}))
    return desk.prepare(task.finish(), 0, len(numbers))


def left(told: Published) -> list[Path]:
    return [path for pending, _ in told.files if (path := Path(told.path) / pending).exists()]


def test_the_rows_of_a_batch_are_appended_with_the_number_of_their_commit(
    spec: ArchiveSpec, spark: Spark, desk: LoadingDesk
) -> None:
    told = committed(spec, desk, 1, 2, 3)
    assert "date" in pq.read_schema(left(told)[0]).names
    desk.publish(told)
    assert spark.rows == [1, 2, 3]
    assert (spark.told["format"], spark.told["mode"], spark.told["partitionBy"]) == ("delta", "append", ("date",))
    assert spark.told["path"] == spec.path
    assert left(told) == []


def test_a_batch_that_is_appended_again_has_the_same_number(spec: ArchiveSpec, spark: Spark, desk: LoadingDesk) -> None:
    told = committed(spec, desk, 1, 2)
    kept = left(told)[0].read_bytes()
    desk.publish(told)
    (Path(told.path) / told.files[0][0]).write_bytes(kept)  # killed before it was removed
    next_driver = LoadingDesk(spec, "life", spark, None)
    next_driver.publish(told)
    assert spark.rows == [1, 2]
    next_driver.publish(committed(spec, desk, 3))
    assert spark.rows == [1, 2, 3]


def test_what_cannot_be_appended_stays_and_says_why(spec: ArchiveSpec, spark: Spark, desk: LoadingDesk) -> None:
    told = committed(spec, desk, 1)
    spark.error = ValueError("no room\nand a long story")
    with pytest.raises(ArchiveError, match=f"{spec.path} cannot be written: no room$"):
        desk.publish(told)
    assert len(left(told)) == 1
    spark.error = None
    desk.publish(told)
    assert spark.rows == [1]


def test_what_is_no_longer_pending_was_appended_before(spec: ArchiveSpec, spark: Spark, desk: LoadingDesk) -> None:
    told = committed(spec, desk, 1)
    desk.publish(told)
    spark.told = {}
    desk.publish(told)
    assert spark.told == {}
