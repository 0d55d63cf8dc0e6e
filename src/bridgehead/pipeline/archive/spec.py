"""What an archive is, and what a commit says of it. Plain values: they travel to Spark's workers and to the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """The archive of one route of one node."""

    path: str  # absolute; the same directory for the driver and every worker
    node: str
    route: str
    bridge: str
    format: str = PARQUET
    partition_by: tuple[str, ...] = ("date",)

    @property
    def is_parquet(self) -> bool:
        """Files that are renamed to their place; all other formats are loaded by their own writer."""
        return self.format == PARQUET

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
    version: int = 1  # rises with each batch of this life that has files

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "files": [list(each) for each in self.files], "version": self.version}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Published:
        files = tuple((pending, visible) for pending, visible in value["files"])
        return Published(value["path"], files, value["version"])
