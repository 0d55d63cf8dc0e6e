"""A disk that is really full: a small file system of its own, in RAM, that a test can fill to the last byte and free again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

MIB = 1 << 20


class SmallDisk:
    """Mounted on ``directory`` while the block runs. Needs the right to mount: root, or sudo without a password."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        self._size = size
        self._ballast = directory / "ballast"

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        _as_root("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=0777", "small-disk", str(self.directory))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _as_root("umount", "--lazy", str(self.directory))

    @property
    def room(self) -> int:
        """Bytes that are free."""
        return shutil.disk_usage(self.directory).free

    def fill(self, leave: int = 0) -> None:
        """Somebody else takes all but ``leave`` bytes."""
        with self._ballast.open("ab", buffering=0) as file:  # what a buffer kept would fail again when it is closed
            while (wanted := min(self.room - leave, MIB)) > 0:
                try:
                    file.write(bytes(wanted))
                except OSError:
                    return  # the node was faster: there is no more

    def free(self) -> None:
        """And gives it back."""
        self._ballast.unlink(missing_ok=True)


def _as_root(*command: str) -> None:
    subprocess.run(command if os.geteuid() == 0 else ("sudo", "-n", *command), check=True)
