"""The watch on the disk: it says when to stop taking in, and when to go on."""

from __future__ import annotations

from pathlib import Path

from bridgehead.storage.freespace import LOOK_AFTER, MARGIN, FreeSpace, free_bytes


class Disk:
    def __init__(self, free: int, min_free: int) -> None:
        self.free = free
        self.spoken_for = 0
        self.looks = 0
        self.told = 0
        self.space = FreeSpace(self._probe, min_free, lambda: self.spoken_for)
        self.space.on_room = self._tell

    def _probe(self) -> int:
        self.looks += 1
        return self.free

    def _tell(self) -> None:
        self.told += 1

    def becomes(self, free: int) -> bool:
        self.free = free
        self.space.look()
        return self.space.low


def test_space_is_low_below_the_bound_and_until_a_little_above_it() -> None:
    disk = Disk(1000, min_free=160)
    assert [disk.becomes(free) for free in (160, 159, 160, 169)] == [False, True, True, True]
    assert disk.told == 0
    assert not disk.becomes(170)
    assert disk.told == 1
    assert not disk.becomes(1000)
    assert disk.told == 1


def test_of_a_large_bound_a_small_part_is_enough_to_go_on() -> None:
    disk = Disk(0, min_free=1 << 40)
    assert [disk.becomes((1 << 40) + more) for more in (MARGIN - 1, MARGIN)] == [True, False]


def test_a_disk_that_is_full_at_the_start_is_known_at_once() -> None:
    assert Disk(10, min_free=160).space.low


def test_much_that_comes_in_is_a_reason_to_look() -> None:
    for min_free, after in ((1 << 40, LOOK_AFTER), (160, 20)):
        disk = Disk(1 << 41, min_free)
        disk.free = 0
        assert disk.space.coming(after - 1)
        assert not disk.space.coming(1)
        assert disk.looks == 2


def test_what_storage_needs_for_what_it_has_is_no_room_for_more() -> None:
    disk = Disk(1000, min_free=160)
    disk.spoken_for = 840
    assert (disk.becomes(1000), disk.space.room) == (False, 160)
    disk.spoken_for = 841
    assert disk.becomes(1000)
    disk.spoken_for = 831
    assert disk.becomes(1000), "a little more than the bound is needed to go on"
    disk.spoken_for = 830
    assert not disk.becomes(1000)


def test_near_the_bound_whatever_could_reach_it_is_a_reason_to_look() -> None:
    disk = Disk(2000, min_free=1800)
    disk.free = 0
    assert disk.space.coming(100), "twice that leaves just the bound"
    assert disk.looks == 1
    assert not disk.space.coming(1)
    assert disk.looks == 2


def test_the_free_space_of_a_directory_is_a_number_of_bytes(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
