"""The gate's rules: who may commit what, and when."""

from __future__ import annotations

import pytest

from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.landing import Output
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making import rows as making
from making.slow import SlowEngine
from spark.host import stored_rows

ROUTE = "route"


class House:
    def __init__(self, max_staged_bytes: int = 1 << 30) -> None:
        engine = MemoryEngine()
        self.journal = Journal(engine, 1 << 60)
        self.log = self.journal.log(SHARED)
        self.outbox = Outbox(ROUTE, engine, 1 << 60, 1 << 60)
        self.gate = Gate(engine, self.journal, {ROUTE: self.outbox}, max_staged_bytes)
        self.engine = engine
        self.epoch = self.gate.new_epoch()

    def append(self, *payloads: bytes) -> None:
        changes = Changes()
        self.log.append(changes, stored_rows(payloads, ["t"], [ROUTE]))
        self.engine.write(changes)
        self.log.publish()

    def stage(self, name: str, start: int, end: int) -> Part:
        """What a task does with its range."""
        batches = [apply(rows, RouteRules(ROUTE)) for _, rows in self.gate.read(*self.at, SHARED, start, end)]
        staged = Staged.of(batches, [ROUTE] * len(batches))
        self.gate.stage(self.epoch, SHARED, name, staged)
        return Part(name, start, staged.rows, staged.checksum)

    @property
    def at(self) -> tuple[int, str]:
        return self.epoch, self.log.incarnation

    def landed(self) -> list[bytes]:
        taken: list[bytes] = []
        while (polled := self.outbox.poll(1000)) is not None:
            taken += polled.batch.column("payload").to_pylist()
        return taken


def rows() -> Batch:
    return apply(stored_rows([b"x"], ["t"], [ROUTE]), RouteRules(ROUTE))


@pytest.fixture
def house() -> House:
    house = House()
    house.append(b"0", b"1", b"2", b"3")
    return house


def test_a_commit_from_the_consumed_offset_lands_its_rows_in_order(house: House) -> None:
    house.gate.plan(house.epoch, SHARED, 0, 4)
    late, early = house.stage("b", 2, 4), house.stage("a", 0, 2)
    assert house.gate.commit(house.epoch, SHARED, 0, 4, [late, early])
    assert house.landed() == [b"0", b"1", b"2", b"3"]
    assert house.log.consumed == 4


def test_a_commit_that_is_repeated_changes_nothing(house: House) -> None:
    part = house.stage("a", 0, 4)
    assert house.gate.commit(house.epoch, SHARED, 0, 4, [part])
    assert not house.gate.commit(house.epoch, SHARED, 0, 4, [part])
    assert len(house.landed()) == 4


def test_a_commit_that_leaves_a_gap_is_refused(house: House) -> None:
    part = house.stage("a", 2, 4)
    with pytest.raises(RefusedError, match="consumed up to 0"):
        house.gate.commit(house.epoch, SHARED, 2, 4, [part])
    assert house.landed() == []


def test_a_missing_part_refuses_the_whole_commit(house: House) -> None:
    first = house.stage("a", 0, 2)
    missing = Part("b", 2, 2, 0)
    with pytest.raises(RefusedError, match="never staged"):
        house.gate.commit(house.epoch, SHARED, 0, 4, [first, missing])
    assert house.landed() == []
    assert house.log.consumed == 0


def test_a_part_that_is_not_what_was_announced_refuses_the_whole_commit(house: House) -> None:
    part = house.stage("a", 0, 4)
    for wrong in (Part("a", 0, 3, part.checksum), Part("a", 0, 4, part.checksum ^ 1)):
        with pytest.raises(RefusedError, match="not what was announced"):
            house.gate.commit(house.epoch, SHARED, 0, 4, [wrong])
    assert house.log.consumed == 0


def test_finished_ranges_that_cover_the_batch_are_committed_in_order(house: House) -> None:
    house.gate.plan(house.epoch, SHARED, 0, 4)
    house.gate.finish(house.epoch, SHARED, 2, 4, [house.stage("b", 2, 4)])
    house.gate.finish(house.epoch, SHARED, 0, 2, [house.stage("a", 0, 2)])
    assert house.gate.commit_finished(house.epoch, SHARED, 0, 4)
    assert not house.gate.commit_finished(house.epoch, SHARED, 0, 4)
    assert house.landed() == [b"0", b"1", b"2", b"3"]


def test_an_unfinished_range_refuses_the_commit(house: House) -> None:
    house.gate.plan(house.epoch, SHARED, 0, 4)
    house.gate.finish(house.epoch, SHARED, 0, 2, [house.stage("a", 0, 2)])
    with pytest.raises(RefusedError, match="from 2"):
        house.gate.commit_finished(house.epoch, SHARED, 0, 4)
    house.gate.finish(house.epoch, SHARED, 2, 4, [house.stage("b", 2, 4)])
    with pytest.raises(RefusedError, match="beyond 3"):
        house.gate.commit_finished(house.epoch, SHARED, 0, 3)
    assert house.landed() == []


def test_a_batch_that_is_planned_again_forgets_what_was_staged(house: House) -> None:
    house.gate.plan(house.epoch, SHARED, 0, 4)
    part = house.stage("a", 0, 4)
    house.gate.plan(house.epoch, SHARED, 0, 4)
    with pytest.raises(RefusedError, match="never staged"):
        house.gate.commit(house.epoch, SHARED, 0, 4, [part])


def test_everything_from_an_older_epoch_is_refused(house: House) -> None:
    old = house.epoch
    part = house.stage("a", 0, 4)
    house.epoch = house.gate.new_epoch()
    calls = [
        lambda: house.gate.begin(old, SHARED),
        lambda: house.gate.latest(old, SHARED, 0, 10, 1000),
        lambda: house.gate.plan(old, SHARED, 0, 4),
        lambda: house.gate.planned(old, SHARED),
        lambda: house.gate.read(old, house.log.incarnation, SHARED, 0, 4),
        lambda: house.gate.stage(old, SHARED, "a", Staged.of([rows()], [ROUTE])),
        lambda: house.gate.finish(old, SHARED, 0, 4, [part]),
        lambda: house.gate.commit(old, SHARED, 0, 4, [part]),
        lambda: house.gate.commit_finished(old, SHARED, 0, 4),
        lambda: house.gate.release(old, SHARED, 4),
    ]
    for call in calls:
        with pytest.raises(StaleEpochError):
            call()
    assert house.landed() == []


def test_a_new_epoch_forgets_what_the_old_one_staged(house: House) -> None:
    part = house.stage("a", 0, 4)
    house.epoch = house.gate.new_epoch()
    with pytest.raises(RefusedError, match="never staged"):
        house.gate.commit(house.epoch, SHARED, 0, 4, [part])


def test_offsets_of_another_incarnation_are_refused(house: House) -> None:
    with pytest.raises(StaleEpochError, match="incarnation"):
        house.gate.read(house.epoch, "another", SHARED, 0, 4)


def test_staging_without_committing_ends_at_the_bound_and_replacing_a_part_does_not_count_twice() -> None:
    staged = Staged.of([rows()], [ROUTE])
    house = House(max_staged_bytes=2 * staged.size)
    for _ in range(5):
        house.gate.stage(house.epoch, SHARED, "a", staged)
    house.gate.stage(house.epoch, SHARED, "b", staged)
    with pytest.raises(RefusedError, match="bytes staged"):
        house.gate.stage(house.epoch, SHARED, "c", staged)


def test_finished_tasks_that_brought_fewer_rows_than_the_range_holds_are_refused(house: House) -> None:
    part = house.stage("a", 0, 3)
    house.gate.finish(house.epoch, SHARED, 0, 4, [part])
    with pytest.raises(RefusedError, match=r"brought \{'route': 3\} of \[0, 4\), which holds \{'route': 4\}"):
        house.gate.commit_finished(house.epoch, SHARED, 0, 4)
    assert house.log.consumed == 0
    assert house.landed() == []


def test_a_batch_takes_out_of_the_journal_what_enters_the_outbox(house: House) -> None:
    house.gate.commit(house.epoch, SHARED, 0, 3, [house.stage("a", 0, 3)])
    ledger = house.outbox.ledger
    assert (ledger.consumed, ledger.entered, house.journal.waiting_of(ROUTE)) == (3, 3, 1)


def test_rows_that_come_for_another_route_than_announced_are_refused(house: House) -> None:
    part = house.stage("a", 0, 4)
    house.gate.stage(house.epoch, SHARED, "a", Staged.of([rows()] * 4, ["elsewhere"] * 4))
    with pytest.raises(RefusedError, match="not what was announced"):
        house.gate.commit(house.epoch, SHARED, 0, 4, [part])
    assert house.log.consumed == 0


def test_an_unknown_log_and_an_unknown_route_are_refused(house: House) -> None:
    with pytest.raises(RefusedError, match="no log"):
        house.gate.begin(house.epoch, "elsewhere")
    known, other = house.stage("a", 0, 2), Staged.of([rows()], ["elsewhere"])
    house.gate.stage(house.epoch, SHARED, "b", other)
    unknown = Part("b", 2, other.rows, other.checksum)
    with pytest.raises(RefusedError, match="no route"):
        house.gate.commit(house.epoch, SHARED, 0, 4, [known, unknown])
    assert house.log.consumed == 0
    assert house.landed() == []


def test_forwarders_see_rows_only_when_their_own_commit_is_synced() -> None:
    engine = SlowEngine()
    journal = Journal(engine, 1 << 60)
    log = journal.log("shared")
    outbox = Outbox(ROUTE, engine, 1 << 60, 1 << 60)
    gate = Gate(engine, journal, {ROUTE: outbox})
    changes = Changes()
    log.append(changes, making.stored_rows({"route": ROUTE}, {"route": ROUTE}))
    engine.write(changes)
    log.publish()
    gate.landing.land(log, 1, [Output(ROUTE, making.outbox_rows({"payload": b"0"}))])
    gate.landing.land(log, 2, [Output(ROUTE, making.outbox_rows({"payload": b"1"}))])
    assert not outbox.has_waiting
    assert outbox.poll(10) is None
    engine.sync(1)
    polled = outbox.poll(10)
    assert polled is not None
    assert polled.rows == 1
    assert not outbox.has_waiting
    engine.sync()
    assert outbox.has_waiting
    assert outbox.depth == 2
