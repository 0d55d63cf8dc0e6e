"""A disk that loses power: a filesystem in an image, whose copy has what had reached the disk and nothing of the page cache.

Needs root, loop devices and mkfs.ext4; nothing is switched off but the processes on it.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SIZE = 1 << 30   # of the image, which is sparse
RELEASED_SECONDS = 30.0


def reason_against() -> str:
    """Why this machine cannot do it; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("mkfs.ext4") is None and not Path("/usr/sbin/mkfs.ext4").exists():
        return "needs mkfs.ext4"
    return "" if Path("/dev/loop-control").exists() else "needs loop devices"


class Disk:
    """Mounted at `path` while the `with` block runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disk"
        self._image = folder / "disk.image"

    def __enter__(self) -> Self:
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(SIZE)
        _run("mkfs.ext4", "-q", str(self._image))
        self._mount()
        return self

    def lose_power(self) -> None:
        """For when its processes have been killed: what they had written and not synced is gone."""
        after = self._image.with_suffix(".after")
        _run("cp", "--sparse=always", str(self._image), str(after))   # before anything writes the page cache back
        self._unmount()
        after.replace(self._image)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def _unmount(self) -> None:
        """A killed process may hold its files a moment longer than its memory."""
        deadline = time.monotonic() + RELEASED_SECONDS
        while True:
            try:
                return _run("umount", str(self.path))
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._unmount()


def _run(*command: str) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path}, capture_output=True)
