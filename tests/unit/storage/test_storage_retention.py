"""What was consumed stays to be read again, within an age and a size, and never counts as waiting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from bridgehead.columns.batches import weight
from bridgehead.errors import NotRetainedError
from bridgehead.storage import retention as retention_module
from bridgehead.storage.backup import back_up, restore_backup
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.keys import Kind, numbered_key
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.retention import Retention
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.segments import FAN
from making.crashing import Lives
from making.rows import numbered, numbers, stored_rows

MANY, MUCH = 1_000_000, 1 << 30
HOUR = 3_600_000_000
ROW = weight(stored_rows(*numbered(0, 1)))


class Desk:
    """A journal whose rows are numbered by their offset and arrive when the clock says; its clock stands still."""

    def __init__(self, hours: float, max_bytes: int, engine: Engine | None = None) -> None:
        self.now = 1_000 * HOUR
        self.engine = engine or MemoryEngine()
        self.journal = Journal(self.engine, MUCH, Retention(hours, max_bytes))
        self.log = self.journal.log("shared")

    def append(self, rows: int, log: Log | None = None, **given: object) -> None:
        log = log or self.log
        changes = Changes()
        log.append(changes, stored_rows(*numbered(log.end, rows, received_at=self.now, **given)))
        self.engine.write(changes)
        log.publish()

    def pass_through(self, rows: int) -> None:
        changes = Changes()
        self.log.pass_through(changes, stored_rows(*numbered(self.log.end, rows, received_at=self.now)))
        self.engine.write(changes)
        self.log.publish()

    def land(self, log: Log | None = None) -> None:
        """Consumed, and its reader may still ask for it."""
        log = log or self.log
        changes = Changes(state={("landed",): True})  # in a node: outbox rows
        log.consume(changes, log.end)
        self.engine.write(changes)

    def consume(self, log: Log | None = None) -> None:
        log = log or self.log
        self.land(log)
        changes = Changes()
        log.trim(changes, log.end)
        self.engine.write(changes)

    def sweep(self) -> None:
        changes = Changes()
        self.journal.retention.sweep(changes)
        self.engine.write(changes)

    def there(self, log: Log | None = None) -> list[int]:
        log = log or self.log
        return [number for _, batch in log.read(0, log.end) for number in numbers(batch)]


MakeDesk = Callable[..., Desk]


@pytest.fixture
def make_desk(monkeypatch: pytest.MonkeyPatch) -> MakeDesk:
    def make(hours: float = 0, max_bytes: int = 0, engine: Engine | None = None) -> Desk:
        desk = Desk(hours, max_bytes, engine)
        monkeypatch.setattr(retention_module, "now_us", lambda: desk.now)
        return desk

    return make


def test_without_bounds_nothing_stays(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.append(3)
    desk.consume()
    assert desk.there() == []
    assert not desk.log.retains
    assert desk.log.trimmed == 3


def test_rows_stay_until_they_are_as_old_as_may_be(make_desk: MakeDesk) -> None:
    desk = make_desk(hours=1.5)
    desk.append(2)
    desk.now += HOUR
    desk.append(2)
    desk.consume()
    assert desk.there() == [0, 1, 2, 3]
    desk.now += HOUR // 2 + 1
    desk.sweep()
    assert desk.there() == [2, 3]
    assert (desk.log.trimmed, desk.log.retained) == (2, 2)
    desk.now += HOUR
    desk.sweep()
    assert desk.there() == []


def test_no_more_bytes_stay_than_may(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=5 * ROW)
    for _ in range(10):
        desk.append(1)
        desk.consume()
    assert desk.there() == [5, 6, 7, 8, 9]
    assert desk.log.retained_weight == 5 * ROW


def test_older_rows_give_way_to_those_that_were_just_consumed(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=5 * ROW)
    desk.pass_through(3)
    desk.append(4)
    desk.land()
    assert desk.there() == [3, 4, 5, 6]
    assert desk.log.retained_weight <= 5 * ROW


def test_with_both_bounds_the_tighter_one_counts(make_desk: MakeDesk) -> None:
    desk = make_desk(hours=1, max_bytes=3 * ROW)
    for _ in range(4):
        desk.append(1)
    desk.consume()
    assert desk.there() == [1, 2, 3]
    desk.now += HOUR + 1
    desk.sweep()
    assert desk.there() == []


def test_the_bytes_are_those_of_all_logs_and_the_oldest_of_all_give_way(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=3 * ROW)
    other = desk.journal.log("other")
    for log in (desk.log, other, desk.log, other):
        desk.append(1, log)
        desk.consume(log)
        desk.now += 1
    assert (desk.there(), desk.there(other)) == ([1], [0, 1])


def test_what_waits_or_is_held_by_its_reader_is_not_touched(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=1)
    desk.append(2)
    desk.append(2)
    desk.append(2)
    changes = Changes()
    desk.log.consume(changes, 4)
    desk.log.trim(changes, 2)
    desk.engine.write(changes)
    assert desk.there() == [2, 3, 4, 5]


def test_retained_rows_do_not_wait_and_do_not_fill_the_journal(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=MUCH)
    desk.journal.max_bytes = 4 * ROW
    for _ in range(10):
        desk.append(3)
        desk.consume()
    assert not desk.journal.full
    assert (desk.log.waiting, desk.journal.waiting_of("r"), desk.log.waiting_weight) == (0, 0, 0)
    assert desk.log.retained == 30


def test_rows_that_pass_through_are_retained_too(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=4 * ROW)
    for _ in range(3):
        desk.pass_through(2)
    assert desk.there() == [2, 3, 4, 5]
    assert (desk.log.waiting, desk.log.empty, desk.log.visible) == (0, True, 6)


def test_many_small_retained_batches_become_few(make_desk: MakeDesk) -> None:
    for step in ("append", "pass_through"):
        desk = make_desk(max_bytes=MUCH)
        for _ in range(FAN * FAN + FAN):
            getattr(desk, step)(1)
            if step == "append":
                desk.consume()
        assert desk.there() == list(range(FAN * FAN + FAN))
        assert len(desk.log.read(0, desk.log.end)) <= 2 * FAN
        assert desk.log.retained_weight == sum(weight(batch) for _, batch in desk.log.read(0, desk.log.end))


def test_rows_are_found_by_the_time_they_came(make_desk: MakeDesk) -> None:
    desk = make_desk(hours=100)
    times = []
    for _ in range(5):
        times.append(desk.now)
        desk.append(3)
        desk.now += HOUR
    desk.consume()
    assert [desk.log.offset_at(time) for time in times] == [0, 3, 6, 9, 12]
    assert [desk.log.offset_at(time + 1) for time in times] == [3, 6, 9, 12, 15]
    assert desk.log.offset_at(0) == 0
    assert desk.log.earliest_us == times[0]


def test_whoever_asks_for_rows_that_are_gone_is_told_which(make_desk: MakeDesk) -> None:
    desk = make_desk(max_bytes=2 * ROW)
    for _ in range(5):
        desk.append(1)
    desk.consume()
    with pytest.raises(NotRetainedError) as caught:
        desk.log.read_again(1, 5)
    assert (caught.value.start, caught.value.end) == (1, 3)
    assert [numbers(batch) for _, batch in desk.log.read_again(3, 5)] == [[3], [4]]
    with pytest.raises(NotRetainedError) as caught:
        desk.log.read_again(0, 2)
    assert (caught.value.start, caught.value.end) == (0, 2)


def test_where_space_is_short_the_older_half_gives_way(make_desk: MakeDesk) -> None:
    desk = make_desk(hours=1)
    for _ in range(4):
        desk.append(1)
    desk.consume()
    changes = Changes()
    desk.journal.retention.give_way(changes)
    desk.engine.write(changes)
    assert desk.there() == [2, 3]


def test_retained_rows_survive_a_kill_without_those_of_qos_0(tmp_path: Path, make_desk: MakeDesk) -> None:
    lives = Lives(tmp_path)
    desk = make_desk(hours=1, engine=lives.start())
    desk.pass_through(2)
    desk.append(2)
    desk.append(1, qos=0)
    desk.append(1)
    desk.consume()
    found = make_desk(hours=1, engine=lives.crash())
    assert found.there() == [0, 1, 2, 3, 5]
    assert (found.log.waiting, found.log.retained, found.log.trimmed) == (0, 5, 0)
    assert found.log.newest(found.log._segments[0]) == desk.now
    lives.close()


def test_a_later_life_knows_how_far_rows_are_gone(tmp_path: Path, make_desk: MakeDesk) -> None:
    lives = Lives(tmp_path)
    desk = make_desk(max_bytes=1, engine=lives.start())
    desk.append(3)
    desk.consume()
    found = make_desk(max_bytes=1, engine=lives.crash())
    assert (found.there(), found.log.trimmed) == ([], 3)
    lives.close()


def test_what_was_retained_leaves_when_that_is_switched_off(tmp_path: Path, make_desk: MakeDesk) -> None:
    lives = Lives(tmp_path)
    desk = make_desk(hours=1, engine=lives.start())
    desk.append(3)
    desk.consume()
    found = make_desk(engine=lives.crash())
    found.append(1)
    found.consume()
    assert found.there() == []
    assert found.engine.state(("trimmed", "shared")) is None
    lives.close()


def test_rows_of_qos_0_have_a_bound_in_ram_where_there_is_a_disk(
    tmp_path: Path, make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "MAX_LOOSE_BYTES", 3 * ROW)
    lives = Lives(tmp_path)
    desk = make_desk(hours=1, engine=lives.start())
    for qos in (1, 0, 0, 1, 0, 0):
        desk.append(1, qos=qos)
        desk.consume()
    assert desk.there() == [2, 3, 4, 5]
    assert desk.log.retained_loose == 3 * ROW
    lives.close()
    in_memory = make_desk(max_bytes=100 * ROW)
    for _ in range(6):
        in_memory.append(1, qos=0)
        in_memory.consume()
    assert len(in_memory.there()) == 6


async def test_retained_rows_are_in_a_backup(tmp_path: Path, make_desk: MakeDesk) -> None:
    desk = make_desk(hours=1, engine=RocksEngine(tmp_path / "a" / "store", sync=False))
    desk.pass_through(2)
    desk.append(2)
    desk.consume()
    await back_up(desk.engine, tmp_path / "backup", "edge")
    desk.engine.close()
    restore_backup(tmp_path / "backup", tmp_path / "b" / "store", replace=False)
    found = make_desk(hours=1, engine=RocksEngine(tmp_path / "b" / "store", sync=False))
    assert (found.there(), found.log.waiting, found.log.retained) == ([0, 1, 2, 3], 0, 4)
    found.engine.close()


def test_a_repair_keeps_what_is_retained_and_a_damaged_part_of_it_is_no_loss(tmp_path: Path, make_desk: MakeDesk) -> None:
    directory = tmp_path / "store"
    desk = make_desk(hours=1, engine=RocksEngine(directory, sync=False))
    for _ in range(3):
        desk.append(2)
    desk.consume()
    desk.engine.close()
    db = Rdict(str(directory), Options(raw_mode=True))
    key = numbered_key(Kind.BATCH, ("journal", "shared"), 2)
    value = bytearray(db[key])
    value[-2] ^= 1
    db[key] = bytes(value)
    db.close()
    engine = RocksEngine(directory, sync=False)
    found = make_desk(hours=1, engine=engine)
    assert (found.there(), found.log.waiting) == ([0, 1, 4, 5], 0)
    assert engine.losses.rows(("journal", "shared")) == 0, "it was consumed: nobody has lost a message"
    engine.close()
