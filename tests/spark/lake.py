"""An archive as somebody reads it who knows nothing of how it came about."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from support.waiting import until


@lru_cache(maxsize=100_000)
def rows_in(file: Path) -> int:
    """Files never change; a directory that is read again and again need not be opened each time."""
    try:
        return pq.read_metadata(file).num_rows
    except FileNotFoundError:
        return 0  # merged meanwhile


class Lake:
    """A directory of Parquet files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def table(self) -> pa.Table:
        """All rows. Whoever has listed files that were merged meanwhile reads again."""
        while True:
            try:
                return ds.dataset(self.path, format="parquet", partitioning="hive").to_table()
            except FileNotFoundError:
                if not self.path.exists():
                    return pa.table({"payload": pa.array([], pa.binary()), "topic": pa.array([], pa.string())})

    def numbers(self, topic: str | None = None) -> list[int]:
        """What was published as numbers, in rising order."""
        rows = self.table().to_pylist()
        return sorted(int(row["payload"]) for row in rows if topic is None or row["topic"] == topic)

    def wait_for(self, count: int) -> list[int]:
        """So many rows, however they came."""
        until(lambda: self._count() >= count, f"{count} rows are in {self.path}", detail=lambda: self.numbers())
        return self.numbers()

    def _count(self) -> int:
        return sum(rows_in(path) for path in self.files())

    def files(self) -> list[Path]:
        return sorted(path for path in self.path.rglob("*.parquet") if "_pending" not in path.parts)

    def pending(self) -> list[Path]:
        """Files that no reader sees."""
        return [path for path in (self.path / "_pending").glob("*/*") if path.is_file()]
