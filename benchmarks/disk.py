"""What a sync takes on the disk below a folder, whoever asks for it."""

import contextlib
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

IN_MEMORY = {"tmpfs", "ramfs"}   # filesystems on which a sync does nothing


@dataclass(frozen=True)
class Sync:
    """How long fdatasync took after appends of so many bytes each."""

    size: int
    milliseconds: tuple[float, ...]
    busy: bool = False   # were all processors, with something else?

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def slow(self) -> float:
        """The one of ten that took longest."""
        return statistics.quantiles(self.milliseconds, n=10)[-1]


def measured(folder: Path, size: int, count: int, busy: bool = False) -> Sync:
    """Append to a file that grows, as a log does, and sync each time; bytes that nothing below can squeeze."""
    file = folder / "appended"
    data = random.Random(size).randbytes(size)
    taken = []
    with _processors_busy() if busy else contextlib.nullcontext(), file.open("wb", buffering=0) as log:
        for _ in range(count):
            log.write(data)
            began = time.perf_counter()
            os.fdatasync(log.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    file.unlink()
    return Sync(size, tuple(taken), busy)


@contextlib.contextmanager
def _processors_busy() -> Iterator[None]:
    """A process for each of them that does nothing but run."""
    spinning = [subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
                for _ in os.sched_getaffinity(0)]
    try:
        for child in spinning:
            assert child.stdout is not None
            child.stdout.readline()   # it runs
        yield
    finally:
        for child in spinning:
            child.kill()
            child.communicate()


def joined(syncs: Iterable[Sync]) -> list[Sync]:
    """Those of one size and state of the machine as one: of an idle one first, the smallest first."""
    same: dict[tuple[bool, int], tuple[float, ...]] = {}
    for sync in syncs:
        key = sync.busy, sync.size
        same[key] = same.get(key, ()) + sync.milliseconds
    return [Sync(size, same[busy, size], busy) for busy, size in sorted(same)]


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
