"""An archive whose driver is killed at any step, against a model: readers see each committed row at most once at every
moment, and exactly once after a recovery."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import TIMESTAMP
from bridgehead.pipeline.archive import files, writer
from bridgehead.pipeline.archive.compaction import Compactor
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.spec import ArchiveSpec, PendingFile, Published
from bridgehead.pipeline.archive.writer import ArchiveWriter

DAY_US = 86_400_000_000
TODAY = "2030-01-01"  # every day of the model is over: all its files may be merged
STEPS = ("make_directory", "sync", "move", "link", "remove", "remove_directory", "exchange")


class KilledError(BaseException):
    """The driver is gone."""


def rows(start: int, end: int) -> Batch:
    offsets = np.arange(start, end)
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([f"t/{offset % 3}" for offset in offsets], pa.string()),
            "received_at": pa.array((offsets % 2) * DAY_US, TIMESTAMP),
            "journal_offset": pa.array(offsets),
        }
    )


class Stage:
    """The node's half of the story (one atomic fact), a disk, and drivers that come and go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = ArchiveSpec(str(path / "lake"), "plant", "cloud.push.1234", "cloud", partition_by=("date",))
        self.consumed = 0
        self.named: Published | None = None  # by the last commit
        self.sure = 0  # offsets below were published: a reader must see them
        self.steps_left: int | None = None
        self.seen: dict[tuple[int, int, int], list[int]] = {}
        self.desk = ArchiveDesk(self.spec, "life")

    # what a reader of directories sees

    def visible(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for at, below, names in os.walk(self.spec.path):
            below[:] = [name for name in below if not name.startswith(("_", "."))]
            for name in names:
                if not name.startswith(("_", ".")):
                    found.update(self._offsets(Path(at) / name))
        return found

    def _offsets(self, path: Path) -> list[int]:
        status = path.stat()
        key = (status.st_ino, status.st_mtime_ns, status.st_size)
        if key not in self.seen:
            self.seen[key] = pq.ParquetFile(path).read(["journal_offset"]).column(0).to_pylist()
        return self.seen[key]

    def look(self) -> None:
        visible = self.visible()
        assert all(count == 1 for count in visible.values()), "doubled"
        assert not visible or max(visible) < self.consumed, "seen before the commit"
        assert set(range(self.sure)) <= set(visible), "lost from sight"

    # steps

    def step(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*told: Any) -> None:
            self.look()
            if self.steps_left is not None:
                self.steps_left -= 1
                if self.steps_left < 0:
                    if name == "write_rows":
                        Path(told[0]).write_bytes(b"PAR1 and half a file")
                    if name == "remove_directory":  # a tree goes file by file
                        for each in list(Path(told[0]).iterdir())[:1]:
                            each.unlink()
                    raise KilledError
            act(*told)
            self.look()

        return wrapped

    @contextmanager
    def watched(self) -> Iterator[None]:
        real = [(files, name, getattr(files, name)) for name in STEPS] + [(writer, "write_rows", writer.write_rows)]
        for module, name, act in real:
            setattr(module, name, self.step(name, act))
        try:
            with patch("os.fsync"):  # drivers die here, machines do not
                yield
        finally:
            for module, name, act in real:
                setattr(module, name, act)

    # what happens

    def recover(self) -> None:
        self.desk = ArchiveDesk(self.spec, "life")
        self.desk.recover(self.named, lambda: None)
        self.sure = self.consumed

    def write(self, start: int, end: int) -> list[PendingFile]:
        middle = (start + end) // 2
        written: list[PendingFile] = []
        for partition, (low, high) in enumerate(((start, middle), (middle, end))):
            task = ArchiveWriter(self.spec, partition)
            task.add(rows(low, high))
            written += task.finish()
        return written

    def batch(self, size: int, speculative: bool) -> None:
        start, end = self.consumed, self.consumed + size
        if speculative:
            self.write(start, end)  # an attempt that Spark did not wait for
        prepared = self.desk.prepare(self.write(start, end), start, end)
        self.consumed, self.named = end, prepared  # the commit: one write
        self.desk.publish(prepared)
        self.sure = end
        self.desk.sweep(lambda: None)

    def replay(self, size: int, speculative: bool) -> None:
        """A batch that the node has taken and Spark has not heard of."""
        start = max(self.consumed - size, 0)
        self.write(start, self.consumed)
        self.desk.sweep(lambda: None)

    def compact(self, size: int, speculative: bool) -> None:
        compactor = Compactor(self.spec, grace=0)
        for directory in list(compactor.directories()):
            compactor.compact(directory, TODAY)
        compactor.tidy()


Event = tuple[str, int, bool, int | None, int | None]
events = st.tuples(
    st.sampled_from(["batch", "batch", "replay", "compact"]),
    st.integers(1, 9),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 40)),  # killed before so many steps
    st.one_of(st.none(), st.integers(0, 12)),  # and the one that recovers too
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events, min_size=1, max_size=6))
def test_each_row_is_seen_once_whenever_the_driver_is_killed(story: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(Path(directory))
        with stage.watched():
            stage.recover()
            for name, size, speculative, steps, recovery_steps in story:
                stage.steps_left = steps
                try:
                    getattr(stage, name)(size, speculative)
                except KilledError:
                    stage.steps_left = recovery_steps
                    try:
                        stage.recover()
                    except KilledError:
                        stage.steps_left = None
                        stage.recover()
                stage.steps_left = None
            stage.recover()
        assert stage.visible() == Counter(range(stage.consumed))
        pending = list((Path(stage.spec.path) / "_pending").glob("*/*"))
        assert [each for each in pending if each.is_file()] == []
