"""A task's rows become pending files: each complete and synced before anybody hears of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bridgehead import clock
from bridgehead.columns.batches import Batch, concat
from bridgehead.errors import ArchiveError
from bridgehead.failpoints import passing
from bridgehead.pipeline.archive import files
from bridgehead.pipeline.archive.layout import PENDING, key_of
from bridgehead.pipeline.archive.partitions import partitioned, with_partition_columns
from bridgehead.pipeline.archive.spec import ArchiveSpec, PendingFile

MAX_HELD_BYTES: Final = 64 << 20
"""A task holds so many bytes of rows, then writes them to their directories' files and goes on with new ones."""

COMPRESSION: Final = "zstd"


class ArchiveWriter:
    """Used by one attempt of one task. What it wrote counts only if the commit of its batch names it."""

    def __init__(self, spec: ArchiveSpec, partition: int) -> None:
        self._spec = spec
        self._partition = partition
        self._pending = Path(spec.path) / PENDING / key_of(spec)
        self._held: list[Batch] = []
        self._held_bytes = 0
        self._written: list[PendingFile] = []

    def add(self, batch: Batch) -> None:
        if batch.num_rows:
            self._held.append(batch)
            self._held_bytes += batch.nbytes
        if self._held_bytes >= MAX_HELD_BYTES:
            self._write()

    def finish(self) -> list[PendingFile]:
        """Everything is on the disk, as these files."""
        if self._held:
            self._write()
        if self._written:
            with self._failures():
                files.sync(self._pending)
            passing("worker.archived")
        return self._written

    def _write(self) -> None:
        rows = concat(self._held)
        self._held, self._held_bytes = [], 0
        with self._failures():
            files.make_directory(self._pending)
            if self._spec.is_parquet:
                for directory, own in partitioned(rows, self._spec, clock.now_us()):
                    self._write_file(directory, own)
            else:
                self._write_file("", with_partition_columns(rows, self._spec, clock.now_us()))

    def _write_file(self, directory: str, rows: Batch) -> None:
        name = uuid.uuid4().hex  # unlike that of any other attempt: which one counts the commit says
        self._written.append(PendingFile(name, directory, self._partition, len(self._written), rows.num_rows))
        write_rows(self._pending / name, pa.Table.from_batches([rows]))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What goes wrong with the disk as the archive's error; what this attempt has written is of no use then."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            with suppress(OSError):  # what cannot be removed now is when the query starts again
                for each in self._written:
                    files.remove(self._pending / each.name)
            raise ArchiveError(f"the archive {self._spec.path} cannot be written: {error}") from error


def write_rows(path: Path, table: pa.Table) -> None:
    """One Parquet file, synced."""
    with path.open("wb") as file:
        pq.write_table(table, file, compression=COMPRESSION)
        file.flush()
        os.fsync(file.fileno())
