"""Many small files become few.

A batch leaves a file for each task and directory; at a few batches a second that is thousands an hour. So the files of a
directory are merged: all small ones once its day is over, and before that whenever many of about the same size have come
together (a row is rewritten as often as that number fits into the files of a day: two or three times).

Readers list a directory and then open what they found. The merged file and hard links to everything else in the
directory are put into a new directory beside it, and the two directories are exchanged in one step: a listing shows the
old files or the new ones, never both and never neither. A reader that had listed the old ones and comes to open them is
told that there is no such file, and reads again. The old directory is removed a while later, so that a listing that has
begun in it finds all of it. A crash at any moment leaves the old state or the new one, and directories that nobody
looks into, which are removed. Where a file system cannot exchange directories nothing is merged.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bridgehead import clock
from bridgehead.pipeline.archive import files
from bridgehead.pipeline.archive.layout import MERGING, PENDING, SUFFIX, key_of, merged_name, own_prefix
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.archive.writer import COMPRESSION

TARGET_BYTES: Final = 128 << 20
"""Files are merged up to about this size; one of half of it is left alone."""

MANY: Final = 64
"""So many files of about the same size are merged before their day is over."""

GRACE: Final = 60.0
"""Seconds for which a directory that was exchanged stays, for listings that have begun in it."""

_OLD: Final = "old-"


@dataclass(frozen=True, slots=True)
class Found:
    """A visible file of this archive."""

    name: str
    size: int


def plan(found: Iterable[Found], *, closed: bool) -> list[list[str]]:
    """Which files become one, in the order of their names; nothing where it is not worth it."""
    small = sorted((each for each in found if each.size < TARGET_BYTES // 2), key=lambda each: each.name)
    if closed:
        return _filled(small)
    # A class holds sizes up to MANY times its smallest: what is merged moves to the next one.
    classes: dict[int, list[Found]] = {}
    for each in small:
        classes.setdefault((max(each.size, 1).bit_length() - 1) // (MANY.bit_length() - 1), []).append(each)
    return [names for same in classes.values() if len(same) >= MANY for names in _filled(same)]


def _filled(ordered: list[Found]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    size = 0
    for each in ordered:
        if size >= TARGET_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(each.name)
        size += each.size
    return [names for names in groups if len(names) > 1]


def is_closed(directory: str, today: str) -> bool:
    """Its day is over. Rows may still come late; then they are merged with the rest."""
    days = [part.removeprefix("date=") for part in directory.split("/") if part.startswith("date=")]
    return any(len(day) == len(today) and day < today for day in days)


class Compactor:
    """Merges the files of one archive; used from one thread of the driver."""

    def __init__(self, spec: ArchiveSpec, grace: float = GRACE) -> None:
        self._root = Path(spec.path)
        self._key = key_of(spec)
        self._pending = self._root / PENDING / self._key
        self._grace = grace

    def directories(self) -> Iterator[str]:
        """Every directory with files of this archive."""
        for at, below, names in os.walk(self._root):
            below[:] = [name for name in below if not name.startswith(("_", "."))]
            if any(self._is_own(name) for name in names):
                yield "" if (relative := os.path.relpath(at, self._root)) == "." else relative

    def compact(self, directory: str, today: str) -> int:
        """Merge what is worth it; returns how many files fewer there are."""
        place = self._root / directory
        if not directory or not place.is_dir():
            return 0  # without partitions the directory is the archive itself: nothing beside it to exchange it with
        found = [Found(name, (place / name).stat().st_size) for name in os.listdir(place) if self._is_own(name)]
        merged: dict[str, Path] = {}
        replaced: set[str] = set()
        try:
            for names in plan(found, closed=is_closed(directory, today)):
                for same in self._of_one_schema(place, names):
                    target = self._pending / f"{MERGING}{uuid.uuid4().hex}"
                    merged[merged_name(same[0], target.name[-8:])] = target
                    _merge([place / name for name in same], target)
                    replaced.update(same)
            if not merged or not self._exchange(place, merged, replaced):
                return 0
            return len(replaced) - len(merged)
        finally:
            for target in merged.values():
                files.remove(target)

    def tidy(self) -> None:
        """Remove directories that were exchanged, or should have been, when nobody can be reading them any more."""
        if not self._pending.is_dir():
            return
        with os.scandir(self._pending) as entries:
            aside = [entry for entry in entries if entry.name.startswith(_OLD)]
        with files.in_archive(self._root):
            pass  # whoever was filling one of them has exchanged it by now, or is dead
        for entry in aside:
            if clock.now_us() / 1e6 - entry.stat().st_ctime >= self._grace:
                files.remove_directory(Path(entry.path))

    def _is_own(self, name: str) -> bool:
        return name.startswith(own_prefix(self._key)) and name.endswith(SUFFIX)

    def _of_one_schema(self, place: Path, names: list[str]) -> Iterator[list[str]]:
        """Neighbours with the same columns; a transform that has changed may return others."""
        for _, same in groupby(names, lambda name: pq.read_schema(place / name).remove_metadata()):
            run = list(same)
            if len(run) > 1:
                yield run

    def _exchange(self, place: Path, merged: dict[str, Path], replaced: set[str]) -> bool:
        """The directory with these files instead of those; False if something else happened to it meanwhile."""
        aside = self._pending / f"{_OLD}{uuid.uuid4().hex}"
        with files.in_archive(self._root):
            with os.scandir(place) as entries:
                present = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
            if not replaced <= set(present) or not all(present.values()):
                return False
            files.make_directory(aside)
            try:
                for name in sorted(set(present) - replaced):
                    files.link(place / name, aside / name)
                for name, source in merged.items():
                    files.move(source, aside / name)
                shutil.copymode(place, aside)
                files.sync(aside)
                files.exchange(aside, place)
            except (OSError, files.CannotExchangeError):
                files.remove_directory(aside)
                raise
            files.sync(place.parent)
        return True


def _merge(sources: list[Path], target: Path) -> None:
    """All rows of these files in one, in their order."""
    expected = 0
    with target.open("wb") as file:
        writer: pq.ParquetWriter | None = None
        for source in sources:
            with pq.ParquetFile(source) as reading:
                expected += reading.metadata.num_rows
                writer = writer or pq.ParquetWriter(file, reading.schema_arrow, compression=COMPRESSION)
                for batch in reading.iter_batches():
                    writer.write_batch(batch)
        assert writer is not None
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    if (written := pq.read_metadata(target).num_rows) != expected:
        raise pa.ArrowInvalid(f"{written} rows were merged of {expected}")
