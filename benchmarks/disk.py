"""Which filesystem a folder is on: a sync that does nothing would make every comparison with memory look good."""

from pathlib import Path

IN_MEMORY = {"tmpfs", "ramfs"}   # filesystems on which a sync does nothing


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
