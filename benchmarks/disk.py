"""What a sync takes on the disk below a folder, whoever asks for it."""

import os
import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

IN_MEMORY = {"tmpfs", "ramfs"}   # filesystems on which a sync does nothing


@dataclass(frozen=True)
class Sync:
    """How long fdatasync took after appends of so many bytes each."""

    size: int
    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def slow(self) -> float:
        """The one of ten that took longest."""
        return statistics.quantiles(self.milliseconds, n=10)[-1]


def measured(folder: Path, size: int, count: int) -> Sync:
    """Append to a file that grows, as a log does, and sync each time; bytes that nothing below can squeeze."""
    file = folder / "appended"
    data = random.Random(size).randbytes(size)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    taken = []
    try:
        for _ in range(count):
            os.write(handle, data)
            began = time.perf_counter()
            os.fdatasync(handle)
            taken.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(handle)
        file.unlink()
    return Sync(size, tuple(taken))


def joined(syncs: Iterable[Sync]) -> list[Sync]:
    """Those of one size as one, the smallest first."""
    by_size: dict[int, tuple[float, ...]] = {}
    for sync in syncs:
        by_size[sync.size] = by_size.get(sync.size, ()) + sync.milliseconds
    return [Sync(size, by_size[size]) for size in sorted(by_size)]


def on_disk(folder: Path) -> str:
    """The filesystem that a folder is on; ends the program if it is one on which syncs cost nothing."""
    kind = filesystem(folder.resolve(), Path("/proc/self/mounts").read_text())
    if kind in IN_MEMORY:
        raise SystemExit(f"{folder} is in memory ({kind}), a sync does nothing there: set TMPDIR to a folder on a disk")
    return kind


def filesystem(folder: Path, mounts: str) -> str:
    """The type of the filesystem that a folder is on, by the text of /proc/mounts."""
    found = [(mount, kind) for _, mount, kind, *_ in map(str.split, mounts.splitlines()) if folder.is_relative_to(mount)]
    return max(found, key=lambda each: len(Path(each[0]).parts), default=("", "unknown"))[1]
