"""What an archive adds to a batch: its rows pass a writer on their way to be staged, and its files join the commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.spec import ArchiveSpec, PendingFile, Published
from bridgehead.pipeline.archive.writer import ArchiveWriter
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.task import MANIFEST, MANIFEST_DDL, task_name

FILE: Final = "file"
LISTED_DDL: Final = f"{MANIFEST_DDL}, {FILE} string"
LISTED: Final = MANIFEST.append(pa.field(FILE, pa.string()))
"""The manifest of a task: its staged parts, and its pending files as JSON."""

Stage = Callable[[Iterator[Batch]], Iterator[Batch]]


class Commit(Protocol):
    """Staged parts become outbox rows, and these files belong to the archive; False if it was so before."""

    def __call__(self, parts: list[dict[str, Any]], *, archived: dict[str, Any] | None) -> bool: ...


@dataclass(frozen=True, slots=True)
class ArchiveRows:
    """The function given to mapInArrow: rows are written as they are staged, so that one evaluation feeds both."""

    spec: ArchiveSpec
    stage: Stage

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        writer = ArchiveWriter(self.spec, task_name().partition)

        def written() -> Iterator[Batch]:
            for batch in batches:
                writer.add(batch)
                yield batch

        for listed in self.stage(written()):
            yield listed.append_column(LISTED.field(FILE), pa.nulls(listed.num_rows, pa.string()))
        files = [{FILE: json.dumps(asdict(each))} for each in writer.finish()]
        yield pa.RecordBatch.from_pylist(files, schema=LISTED)


class Landing:
    """The driver's side of it, for one query."""

    def __init__(self, desk: ArchiveDesk, node: NodeClient, log: str) -> None:
        self._desk = desk
        self._node = node
        self._log = log

    def recover(self) -> None:
        """Before the first batch: the disk is where the last commit is."""
        self._desk.recover(self._committed(), self._committed)

    def rows(self, stage: Stage) -> ArchiveRows:
        return ArchiveRows(self._desk.spec, stage)

    def land(self, listed: list[dict[str, Any]], start: int, end: int, commit: Commit) -> None:
        """Commit parts and files together, then show the files."""
        texts = [each.pop(FILE) for each in listed]
        parts = [part for part, text in zip(listed, texts, strict=True) if text is None]
        files = [PendingFile(**json.loads(text)) for text in texts if text is not None]
        if files:
            prepared = self._desk.prepare(files, start, end)
            # A commit whose answer was lost is asked for again, and was made before: what was committed the node knows.
            if commit(parts, archived=prepared.to_json()) or self._committed() == prepared:
                self._desk.publish(prepared)
        else:
            commit(parts, archived=None)
        self._desk.sweep(self._committed)

    def _committed(self) -> Published | None:
        told = self._node.archived(self._log)
        return None if told is None else Published.from_json(told)
