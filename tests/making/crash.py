"""What a killed process leaves on the disk: all that it had handed to the kernel."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_as_left(directory: Path, to: Path) -> None:
    """A copy of a directory in use. RocksDB removes old files in the background: the copy counts if none went meanwhile."""
    while True:
        before = _files(directory)
        try:
            shutil.copytree(directory, to)
        except shutil.Error:
            shutil.rmtree(to)
            continue
        if _files(directory) == before:
            return
        shutil.rmtree(to)


def _files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}
