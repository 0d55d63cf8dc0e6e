"""What an archive is, and what a commit says of it. Plain values: they travel to Spark's workers and to the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """The archive of one route of one node."""

    path: str  # absolute; the same directory for the driver and every worker
    node: str
    route: str
    bridge: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ("date",)

    @staticmethod
    def from_json(value: dict[str, Any]) -> ArchiveSpec:
        return ArchiveSpec(**{**value, "partition_by": tuple(value["partition_by"])})


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that a task has written and no commit has named yet."""

    name: str  # in the directory of pending files
    directory: str  # where it belongs, below the archive's path; "" = directly there
    partition: int  # of the Spark task
    number: int  # among the files of that task
    rows: int


@dataclass(frozen=True, slots=True)
class Published:
    """The files of one committed batch: where each was written, and where it belongs. Both below ``path``."""

    path: str
    files: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "files": [list(each) for each in self.files]}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Published:
        return Published(value["path"], tuple((pending, visible) for pending, visible in value["files"]))
