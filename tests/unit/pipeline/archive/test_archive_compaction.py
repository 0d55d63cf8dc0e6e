"""Small files become few, and readers notice nothing but that."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from bridgehead.columns.schema import TIMESTAMP
from bridgehead.pipeline.archive import files
from bridgehead.pipeline.archive.compaction import MANY, TARGET_BYTES, Compactor, Found, is_closed, plan
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.layout import PENDING, key_of
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.archive.writer import ArchiveWriter

DAY = "date=1970-01-01"
THAT_DAY = "1970-01-01"
LATER = "1970-01-02"


@pytest.fixture
def spec(tmp_path: Path) -> ArchiveSpec:
    return ArchiveSpec(str(tmp_path / "lake"), "plant", "cloud.push.1234", "cloud")


@pytest.fixture
def compactor(spec: ArchiveSpec) -> Compactor:
    return Compactor(spec, grace=0)


def batch(spec: ArchiveSpec, number: int, **more: object) -> None:
    """A batch of one row."""
    task = ArchiveWriter(spec, 0)
    columns = {"n": [number], "received_at": pa.array([0], TIMESTAMP), **more}
    task.add(pa.RecordBatch.from_pydict(columns))
    desk = ArchiveDesk(spec, "life")
    desk.publish(desk.prepare(task.finish(), number, number + 1))


def read(spec: ArchiveSpec) -> list[int]:
    found: list[int] = ds.dataset(spec.path, format="parquet", partitioning="hive").to_table(["n"]).column(0).to_pylist()
    return found


def visible(spec: ArchiveSpec) -> list[str]:
    return sorted(os.listdir(Path(spec.path) / DAY))


def set_aside(spec: ArchiveSpec) -> list[Path]:
    return list((Path(spec.path) / PENDING / key_of(spec)).iterdir())


def sizes(*values: int) -> list[Found]:
    return [Found(f"{index:03d}", value) for index, value in enumerate(values)]


def test_all_small_files_of_a_day_that_is_over_become_one() -> None:
    assert plan(sizes(10, 20, TARGET_BYTES, 30), closed=True) == [["000", "001", "003"]]
    assert plan(sizes(10), closed=True) == []


def test_merged_files_do_not_grow_far_beyond_the_target() -> None:
    third = TARGET_BYTES // 3
    assert plan(sizes(*[third] * 6), closed=True) == [["000", "001", "002", "003"], ["004", "005"]]


def test_before_its_day_is_over_only_many_files_of_about_the_same_size_are_merged() -> None:
    assert plan(sizes(*[1000] * (MANY - 1)), closed=False) == []
    assert [len(names) for names in plan(sizes(*[1000] * MANY), closed=False)] == [MANY]
    assert plan(sizes(*[1000] * (MANY - 1), 1000 * MANY * MANY), closed=False) == []


@pytest.mark.parametrize(
    ("directory", "closed"),
    [
        (DAY, True),
        (f"bridge=a/{DAY}/topicLevel1=x", True),
        (f"date={LATER}", False),
        ("bridge=a", False),
        ("date=__HIVE_DEFAULT_PARTITION__", False),
        ("", False),
    ],
)
def test_a_directory_is_closed_when_its_day_is_over(directory: str, closed: bool) -> None:
    assert is_closed(directory, LATER) is closed


def test_the_rows_of_many_files_are_the_rows_of_one_in_their_order(spec: ArchiveSpec, compactor: Compactor) -> None:
    for number in range(10):
        batch(spec, number)
    assert list(compactor.directories()) == [DAY]
    assert compactor.compact(DAY, LATER) == 9
    assert read(spec) == list(range(10))
    assert len(visible(spec)) == 1
    assert compactor.compact(DAY, LATER) == 0


def test_a_file_that_comes_late_is_merged_with_the_rest(spec: ArchiveSpec, compactor: Compactor) -> None:
    for number in range(4):
        batch(spec, number)
        compactor.compact(DAY, LATER)
    assert read(spec) == [0, 1, 2, 3]
    assert len(visible(spec)) == 1


def test_files_of_others_stay_as_they_are(spec: ArchiveSpec, compactor: Compactor) -> None:
    batch(spec, 1)
    batch(spec, 2)
    pq.write_table(pa.table({"n": [7]}), Path(spec.path) / DAY / "part-of-somebody-else.parquet")
    compactor.compact(DAY, LATER)
    assert len(visible(spec)) == 2
    assert sorted(read(spec)) == [1, 2, 7]


def test_files_with_other_columns_are_not_thrown_together(spec: ArchiveSpec, compactor: Compactor) -> None:
    batch(spec, 1)
    batch(spec, 2)
    batch(spec, 3, unit=["C"])
    batch(spec, 4, unit=["F"])
    assert compactor.compact(DAY, LATER) == 2
    assert sorted(read(spec)) == [1, 2, 3, 4]


def test_a_directory_that_holds_another_one_is_let_alone(spec: ArchiveSpec, compactor: Compactor) -> None:
    batch(spec, 1)
    batch(spec, 2)
    (Path(spec.path) / DAY / "mine").mkdir()
    assert compactor.compact(DAY, LATER) == 0
    assert len(visible(spec)) == 3
    assert set_aside(spec) == []


def test_an_archive_without_partitions_has_nothing_to_exchange(tmp_path: Path) -> None:
    spec = ArchiveSpec(str(tmp_path / "lake"), "plant", "cloud.push.1234", "cloud", partition_by=())
    batch(spec, 1)
    batch(spec, 2)
    assert Compactor(spec).compact("", LATER) == 0
    assert sorted(read(spec)) == [1, 2]


def test_a_listing_that_has_begun_finds_all_of_the_old_directory_and_then_no_such_file(spec: ArchiveSpec) -> None:
    for number in range(3):
        batch(spec, number)
    before = ds.dataset(spec.path, format="parquet", partitioning="hive")
    compactor = Compactor(spec)
    with os.scandir(Path(spec.path) / DAY) as listing:
        first = next(listing)
        compactor.compact(DAY, LATER)
        compactor.tidy()
        assert len([first, *listing]) == 3
    with pytest.raises(FileNotFoundError):
        before.to_table()
    assert len(set_aside(spec)) == 1
    Compactor(spec, grace=0).tidy()
    assert set_aside(spec) == []
    assert read(spec) == [0, 1, 2]


def test_where_directories_cannot_be_exchanged_nothing_changes(
    spec: ArchiveSpec, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(one: Path, other: Path) -> None:
        raise files.CannotExchangeError("not here")

    batch(spec, 1)
    batch(spec, 2)
    monkeypatch.setattr(files, "exchange", cannot)
    with pytest.raises(files.CannotExchangeError):
        compactor.compact(DAY, LATER)
    assert len(visible(spec)) == 2
    assert set_aside(spec) == []
