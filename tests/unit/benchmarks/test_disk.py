"""A sync that does nothing would make every comparison with memory look good."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import disk
from benchmarks.disk import Sync

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


@pytest.mark.parametrize("busy", [False, True])
def test_every_append_is_timed_and_nothing_is_left_behind(busy: bool, tmp_path: Path) -> None:
    sync = disk.measured(tmp_path, 512, 5, busy)
    assert len(sync.milliseconds) == 5
    assert all(taken > 0 for taken in sync.milliseconds)
    assert sync.busy is busy
    assert list(tmp_path.iterdir()) == []


def test_syncs_of_one_size_are_taken_together_and_those_of_a_busy_machine_apart() -> None:
    joined = disk.joined([Sync(8, (1.0, 2.0)), Sync(4, (7.0,), busy=True), Sync(4, (9.0,)), Sync(8, (3.0,))])
    assert joined == [Sync(4, (9.0,)), Sync(8, (1.0, 2.0, 3.0)), Sync(4, (7.0,), busy=True)]
    assert joined[1].median == 2.0
    assert Sync(8, tuple(float(taken) for taken in range(1, 100))).slow == 90.0
