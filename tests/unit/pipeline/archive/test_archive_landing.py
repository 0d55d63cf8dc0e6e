"""Files join the commit of their batch, and what the node has committed decides what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import TIMESTAMP
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.landing import LISTED, ArchiveRows, Landing
from bridgehead.pipeline.archive.layout import PENDING, key_of
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.task import MANIFEST


class Node:
    """Knows what was committed last; may lose its answer, or be somebody else's by now."""

    def __init__(self) -> None:
        self.files: dict[str, Any] | None = None
        self.parts: list[dict[str, Any]] = []
        self.consumed = 0
        self.stale = False

    def archived(self, log: str) -> dict[str, Any] | None:
        if self.stale:
            raise StaleEpochError("over")
        return self.files

    def commit_up_to(self, end: int) -> Any:
        def commit(parts: list[dict[str, Any]], *, archived: dict[str, Any] | None) -> bool:
            if end <= self.consumed:
                return False
            self.consumed, self.parts = end, parts
            self.files = archived if archived is not None else self.files
            return True

        return commit


def staged(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Stands for the rules and staging of a task: one part of all rows."""
    rows = sum(batch.num_rows for batch in batches)
    part = {"name": "p", "order": 0, "rows": rows, "checksum": 0}
    yield pa.RecordBatch.from_pylist([part] if rows else [], schema=MANIFEST)


def rows(*numbers: int) -> Batch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers), "received_at": pa.array([0] * len(numbers), TIMESTAMP)})


@pytest.fixture
def spec(tmp_path: Path) -> ArchiveSpec:
    return ArchiveSpec(str(tmp_path / "lake"), "plant", "cloud.push.1234", "cloud")


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def landing(spec: ArchiveSpec, node: Node) -> Landing:
    landing = Landing(ArchiveDesk(spec, "life"), cast(NodeClient, node), "log")
    landing.recover()
    return landing


def listed(landing: Landing, *numbers: int) -> list[dict[str, Any]]:
    """What a task tells the driver."""
    found = list(landing.rows(staged)(iter([rows(*numbers)] if numbers else [])))
    assert all(batch.schema == LISTED for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def read(spec: ArchiveSpec) -> list[int]:
    return sorted(row["n"] for row in ds.dataset(spec.path, format="parquet", partitioning="hive").to_table().to_pylist())


def pending(spec: ArchiveSpec) -> list[str]:
    return os.listdir(Path(spec.path) / PENDING / key_of(spec))


def test_the_rows_that_are_staged_are_the_rows_in_the_archive(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    landing.land(listed(landing, 1, 2, 3), 0, 3, node.commit_up_to(3))
    assert read(spec) == [1, 2, 3]
    assert [part["rows"] for part in node.parts] == [3]
    assert "file" not in node.parts[0]


def test_a_batch_without_rows_leaves_what_was_named_before(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    landing.land(listed(landing, 1), 0, 1, node.commit_up_to(1))
    named = node.files
    landing.land(listed(landing), 1, 2, node.commit_up_to(2))
    assert node.files == named
    assert node.consumed == 2


def test_a_batch_that_was_committed_before_adds_nothing(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    for _ in range(2):
        landing.land(listed(landing, 1, 2), 0, 2, node.commit_up_to(2))
    assert read(spec) == [1, 2]
    assert pending(spec) == []


def test_a_commit_whose_answer_was_lost_shows_its_files_all_the_same(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    def asked_twice(parts: list[dict[str, Any]], *, archived: dict[str, Any] | None) -> bool:
        commit = node.commit_up_to(2)
        commit(parts, archived=archived)
        return bool(commit(parts, archived=archived))

    landing.land(listed(landing, 1, 2), 0, 2, asked_twice)
    assert read(spec) == [1, 2]


def test_a_refused_commit_shows_nothing_and_the_next_start_removes_it(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    def refused(parts: list[dict[str, Any]], *, archived: dict[str, Any] | None) -> bool:
        raise RefusedError("a part is missing")

    with pytest.raises(RefusedError):
        landing.land(listed(landing, 1, 2), 0, 2, refused)
    assert read(spec) == []
    landing.recover()
    assert pending(spec) == []


def test_a_driver_that_was_replaced_removes_nothing(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    listed(landing, 1)
    node.stale = True
    with pytest.raises(StaleEpochError):
        landing.recover()
    assert len(pending(spec)) == 1


def test_versions_rise_from_batch_to_batch_and_from_driver_to_driver(spec: ArchiveSpec, node: Node, landing: Landing) -> None:
    versions = []
    for end in range(1, 5):
        landing = Landing(ArchiveDesk(spec, "life"), cast(NodeClient, node), "log") if end % 2 else landing
        landing.recover()
        landing.land(listed(landing, end), end - 1, end, node.commit_up_to(end))
        assert node.files is not None
        versions.append(node.files["version"])
    assert versions == [1, 2, 3, 4]


def test_the_function_travels_to_workers(spec: ArchiveSpec) -> None:
    import pickle

    assert pickle.loads(pickle.dumps(ArchiveRows(spec, staged))).spec == spec
