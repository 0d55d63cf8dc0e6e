"""What has to survive a loss of power, in files of our own making."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """A file's content, or the names in a directory, survive a loss of power from now on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
