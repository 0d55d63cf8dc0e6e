"""A sync that does nothing would make every comparison with memory look good."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import disk

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
/dev/vdb /dev/shm/disk xfs rw 0 0
"""


@pytest.mark.parametrize(("folder", "kind"), [
    ("/tmp/bench", "ext4"), ("/dev/shm", "tmpfs"), ("/dev/shm/bench", "tmpfs"),
    ("/dev/shmoo", "ext4"), ("/dev/shm/disk/a", "xfs"),
])
def test_a_folder_is_on_the_filesystem_mounted_nearest_above_it(folder: str, kind: str) -> None:
    assert disk.filesystem(Path(folder), MOUNTS) == kind
