"""Pending files, their places, and what a start finds of an earlier life."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from bridgehead.columns.schema import TIMESTAMP
from bridgehead.errors import ArchiveError, StaleEpochError
from bridgehead.pipeline.archive import files, writer
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.layout import PENDING, key_of
from bridgehead.pipeline.archive.spec import ArchiveSpec, PendingFile, Published
from bridgehead.pipeline.archive.writer import ArchiveWriter

DAY_US = 86_400_000_000


@pytest.fixture
def spec(tmp_path: Path) -> ArchiveSpec:
    return ArchiveSpec(str(tmp_path / "lake"), "plant", "_cloud.push.1234", "_cloud")


@pytest.fixture
def desk(spec: ArchiveSpec) -> ArchiveDesk:
    return ArchiveDesk(spec, "life")


def written(spec: ArchiveSpec, *offsets: int, partition: int = 0) -> list[PendingFile]:
    task = ArchiveWriter(spec, partition)
    received = pa.array([offset * DAY_US for offset in offsets], TIMESTAMP)
    task.add(pa.RecordBatch.from_pydict({"n": pa.array(offsets, pa.int64()), "received_at": received}))
    return task.finish()


def read(spec: ArchiveSpec) -> list[int]:
    """As any reader of directories does."""
    dataset = ds.dataset(spec.path, format="parquet", partitioning="hive")
    return sorted(row["n"] for row in dataset.to_table().to_pylist())


def pending(spec: ArchiveSpec) -> list[str]:
    return os.listdir(Path(spec.path) / PENDING / key_of(spec))


def nobody_else() -> None:
    return


def taken_over() -> None:
    raise StaleEpochError("epoch 1 is over")


def test_readers_see_nothing_before_the_commit_and_everything_behind_it(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    prepared = desk.prepare(written(spec, 1, 2, 2), 0, 3)
    assert read(spec) == []
    desk.publish(prepared)
    assert read(spec) == [1, 2, 2]
    assert sorted(os.listdir(spec.path)) == [PENDING, "date=1970-01-02", "date=1970-01-03"]
    assert pending(spec) == []


def test_files_that_the_last_commit_names_are_put_in_place_at_the_next_start(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    committed = desk.prepare(written(spec, 1, 2), 0, 2)
    told = Published.from_json(committed.to_json())
    for _ in range(2):  # however often
        ArchiveDesk(spec, "life").recover(told, nobody_else)
        assert read(spec) == [1, 2]


def test_files_that_no_commit_names_are_removed_at_the_next_start(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    written(spec, 1, 2)
    desk.recover(None, nobody_else)
    assert pending(spec) == []
    assert read(spec) == []


def test_a_driver_whose_time_is_over_removes_nothing(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    files_of_the_next = desk.prepare(written(spec, 1), 0, 1)
    with pytest.raises(StaleEpochError):
        desk.recover(None, taken_over)
    desk.publish(files_of_the_next)
    assert read(spec) == [1]


def test_what_attempts_have_left_is_swept_away_behind_the_batch(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    written(spec, 1)  # an attempt that failed
    desk.publish(desk.prepare(written(spec, 1, 2), 0, 2))
    written(spec, 1, 2)  # one that nobody waited for
    desk.sweep(nobody_else)
    assert read(spec) == [1, 2]
    assert pending(spec) == []


def test_sweeping_is_only_for_the_driver_of_the_day(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    left = desk.prepare(written(spec, 1), 0, 1)
    with pytest.raises(StaleEpochError):
        desk.sweep(taken_over)
    desk.publish(left)
    assert read(spec) == [1]


def test_a_file_that_is_being_merged_is_not_swept_away(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    written(spec, 1)
    merging = Path(spec.path) / PENDING / key_of(spec) / "merge-1"
    merging.write_bytes(b"half a file")
    desk.sweep(nobody_else)
    assert pending(spec) == ["merge-1"]


def test_a_node_that_counts_from_zero_again_replaces_nothing_of_its_earlier_life(spec: ArchiveSpec) -> None:
    for life in ("one", "two"):
        desk = ArchiveDesk(spec, life)
        desk.publish(desk.prepare(written(spec, 1), 0, 1))
    assert read(spec) == [1, 1]


def test_two_routes_share_a_directory_and_let_each_other_alone(spec: ArchiveSpec, desk: ArchiveDesk) -> None:
    other = replace(spec, route="cloud.pull.5678")
    theirs = ArchiveDesk(other, "life").prepare(written(other, 5), 0, 1)
    desk.recover(None, nobody_else)
    desk.publish(desk.prepare(written(spec, 1), 0, 1))
    ArchiveDesk(other, "life").publish(theirs)
    assert read(spec) == [1, 5]


def test_what_was_committed_goes_where_it_was_written_even_if_the_path_has_changed(spec: ArchiveSpec, tmp_path: Path) -> None:
    committed = ArchiveDesk(spec, "life").prepare(written(spec, 1), 0, 1)
    moved = replace(spec, path=str(tmp_path / "elsewhere"))
    ArchiveDesk(moved, "life").recover(committed, nobody_else)
    assert read(spec) == [1]


def test_a_task_writes_what_it_holds_at_its_bound_and_goes_on(spec: ArchiveSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_HELD_BYTES", 1)
    task = ArchiveWriter(spec, 3)
    for n in (1, 2):
        task.add(pa.RecordBatch.from_pydict({"n": [n], "received_at": pa.array([0], TIMESTAMP)}))
    found = task.finish()
    assert [(each.partition, each.number, each.rows) for each in found] == [(3, 0, 1), (3, 1, 1)]
    desk = ArchiveDesk(spec, "life")
    desk.publish(desk.prepare(found, 0, 2))
    assert read(spec) == [1, 2]


def test_a_task_without_rows_leaves_no_file(spec: ArchiveSpec) -> None:
    assert written(spec) == []
    assert not Path(spec.path).exists()


def test_a_disk_that_is_full_is_an_error_that_names_the_archive_and_leaves_nothing(
    spec: ArchiveSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writer.write_rows

    def full(path: Path, table: pa.Table) -> None:
        write(path, table)
        if len(pending(spec)) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "write_rows", full)
    with pytest.raises(ArchiveError, match=rf"{spec.path} cannot be written: .*No space left"):
        written(spec, 1, 2)
    assert pending(spec) == []


@pytest.mark.parametrize(
    "act",
    [
        lambda desk: desk.recover(None, nobody_else),
        lambda desk: desk.prepare([PendingFile("x", "date=1", 0, 0, 1)], 0, 1),
        lambda desk: written(desk.spec, 1),
    ],
)
def test_a_path_that_is_no_directory_is_an_error_that_names_the_archive(
    spec: ArchiveSpec, desk: ArchiveDesk, act: Callable[[ArchiveDesk], object]
) -> None:
    Path(spec.path).write_text("a file")
    with pytest.raises(ArchiveError, match=spec.path):
        act(desk)


def test_a_lock_that_somebody_keeps_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with (
        files.in_archive(tmp_path),
        pytest.raises(ArchiveError, match="held by another process"),
        files.in_archive(tmp_path, patience=0.0),
    ):
        raise AssertionError
    with files.in_archive(tmp_path, patience=0.0):
        """Free again."""
