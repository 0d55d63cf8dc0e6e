"""Commits of queries with a memory: they name their batch, and rows may come out of a batch that took none in."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.columns.batches import weight
from bridgehead.columns.schema import STORED
from bridgehead.errors import RefusedError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.hops import HOP_COUNT
from bridgehead.pipeline.lastbatch import BatchName
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.retention import NOTHING, Retention
from bridgehead.storage.rocks import RocksEngine
from making import rows as making
from spark.host import stored_rows

ROUTE = "b.push.1"
QUERY = "7f3a"


class House:
    """A route with a transform: its log, its gate, its outbox."""

    def __init__(self, engine: Engine | None = None, retention: Retention = NOTHING) -> None:
        self.engine = engine or MemoryEngine()
        self.journal = Journal(self.engine, 1 << 60, retention)
        self.log = self.journal.log(ROUTE)
        self.ledger = Ledger(ROUTE, self.engine)
        self.outbox = Outbox(ROUTE, self.engine, 1 << 60, 1 << 60, self.ledger)
        self.gate = Gate(self.engine, self.journal, {ROUTE: self.outbox}, transformed={ROUTE})
        self.epoch = self.gate.new_epoch()

    def append(self, *payloads: bytes) -> None:
        changes = Changes()
        rows = stored_rows(payloads, ["t"], [ROUTE])
        self.log.append(changes, rows)
        self.ledger.receive(rows.num_rows, self.ledger.safe_rows(rows))
        self.ledger.write(changes)
        self.engine.write(changes)
        self.log.publish()

    def stage(self, *payloads: bytes, reason: str | None = None) -> list[Part]:
        if not payloads:
            return []
        staged = Staged.of([apply(stored_rows(payloads, ["t"], [ROUTE]), RouteRules(ROUTE))], [ROUTE])
        name = f"part of {payloads!r}"
        self.gate.stage(self.epoch, ROUTE, name, staged)
        return [Part(name, 0, staged.rows, staged.checksum, reason)]

    def run(self, number: int, end: int, *payloads: bytes, query: str = QUERY, start: int | None = None) -> bool:
        """What Spark does with a batch."""
        start = self.log.consumed if start is None else start
        if end > start:
            self.gate.plan(self.epoch, ROUTE, start, end)
        return self.gate.commit(self.epoch, ROUTE, start, end, self.stage(*payloads), BatchName(query, number))

    def landed(self) -> list[bytes]:
        taken: list[bytes] = []
        while (polled := self.outbox.poll(1000)) is not None:
            taken += polled.batch.column("payload").to_pylist()
        return taken


@pytest.fixture
def house() -> House:
    house = House()
    house.append(b"0", b"1", b"2", b"3")
    return house


def test_a_batch_that_takes_rows_in_may_bring_none_out_and_one_that_takes_none_may_bring_some(house: House) -> None:
    assert house.run(0, 4)
    assert (house.log.consumed, house.landed()) == (4, [])
    assert house.run(1, 4, b"closed window")
    assert (house.log.consumed, house.landed()) == (4, [b"closed window"])


def test_a_batch_that_spark_repeats_lands_once_whether_it_took_rows_in_or_not(house: House) -> None:
    house.run(0, 2, b"first")
    assert not house.run(0, 2, b"first", start=0)
    house.run(1, 2, b"window")
    assert not house.run(1, 2, b"window")
    house.run(2, 4, b"last")
    assert house.landed() == [b"first", b"window", b"last"]


def test_a_batch_without_rows_behind_one_that_was_repeated_takes_in_nothing(house: House) -> None:
    house.run(0, 2, b"first")
    house.run(0, 2, b"first", start=0)
    assert house.gate.planned(house.epoch, ROUTE)[:2] == (2, 2)


def test_a_batch_that_leaves_one_out_is_refused(house: House) -> None:
    house.run(0, 2)
    with pytest.raises(RefusedError, match="leaves out 1"):
        house.run(2, 4)


def test_a_batch_that_does_not_begin_where_the_last_one_ended_is_refused(house: House) -> None:
    house.run(0, 2)
    with pytest.raises(RefusedError, match="consumed up to 2"):
        house.run(1, 4, start=3)


def test_a_query_with_a_new_checkpoint_begins_at_the_consumed_offset(house: House) -> None:
    house.run(0, 2, b"first")
    house.run(1, 2, b"second")
    assert house.run(0, 4, b"third", query="other")
    assert house.landed() == [b"first", b"second", b"third"]


def test_rows_in_and_out_add_up(house: House) -> None:
    house.run(0, 3, b"one")
    house.run(1, 3, b"two", b"three")
    ledger = house.ledger
    assert (ledger.consumed, ledger.entered, ledger.transformed) == (3, 3, {"in": 3, "out": 3})
    house.run(2, 4)
    assert ledger.consumed - ledger.transformed["in"] == ledger.entered - ledger.transformed["out"] == 0
    assert (ledger.consumed, ledger.entered) == (4, 3)


def test_rows_that_are_no_messages_are_dead_letters_in_the_write_of_the_commit(house: House) -> None:
    house.gate.plan(house.epoch, ROUTE, 0, 4)
    parts = [*house.stage(b"good"), *house.stage(b"bad", b"worse", reason="transform-bad-topic")]
    assert house.gate.commit(house.epoch, ROUTE, 0, 4, parts)
    assert house.landed() == [b"good"]
    assert [each for _, dead in house.outbox.dead.rows() for each in dead.column("payload").to_pylist()] == [b"bad", b"worse"]
    assert (house.ledger.entered, house.ledger.dead_lettered) == (3, {"transform-bad-topic": 2})
    assert house.outbox.depth == 1


def test_a_batch_knows_the_highest_hop_count_and_qos_of_what_it_takes_in() -> None:
    house = House()
    changes = Changes()
    hops = [{"key": HOP_COUNT, "value": "2"}]
    house.log.append(changes, making.stored_rows({"route": ROUTE}, {"route": ROUTE, "qos": 2, "user_properties": hops}))
    house.engine.write(changes)
    house.log.publish()
    assert house.log.read(0, 2)[0][1].schema == STORED
    house.gate.plan(house.epoch, ROUTE, 0, 1)
    assert house.gate.planned(house.epoch, ROUTE) == (0, 1, 0, 1)
    house.gate.plan(house.epoch, ROUTE, 0, 2)
    assert house.gate.planned(house.epoch, ROUTE) == (0, 2, 2, 2)


def test_what_a_query_with_a_memory_has_taken_in_once_it_may_bring_out_later() -> None:
    house = House()
    changes = Changes()
    house.log.append(changes, making.stored_rows({"route": ROUTE, "user_properties": [{"key": HOP_COUNT, "value": "2"}]}))
    house.engine.write(changes)
    house.log.publish()
    house.run(0, 1)
    assert house.gate.planned(house.epoch, ROUTE) == (1, 1, 2, 0)


async def test_the_last_batch_survives_with_the_offset_it_consumed_also_when_it_brought_no_row(tmp_path: Path) -> None:
    house = House(RocksEngine(tmp_path / "store", sync=True))
    house.append(b"0", b"1")
    house.run(0, 2)
    await house.gate.synced()
    house.engine.close()
    again = House(RocksEngine(tmp_path / "store", sync=True))
    assert again.log.consumed > 2  # nothing waits: offsets go on above those that were promised ahead
    assert not again.run(0, 2, b"window", start=0)
    assert again.run(1, 2, b"window", start=2)
    again.append(b"2")
    assert again.run(2, again.log.end, b"third", start=2)
    await again.gate.synced()
    assert again.landed() == [b"window", b"third"]
    assert (again.ledger.consumed, again.ledger.entered) == (3, 2)
    again.engine.close()


# -- a checkpoint that is lost: the memory is rebuilt from what is retained --------------------------------------------


class Rebuilt:
    """What Spark does with a query that has no checkpoint: asks where to begin, and runs the batches it is offered."""

    def __init__(self, house: House, query: str) -> None:
        self.house, self.query, self.number = house, query, 0
        self.position = house.gate.begin(house.epoch, ROUTE, anew=True)
        self.read: list[bytes] = []

    def batch(self, *payloads: bytes) -> bool:
        """The next batch, with rows if there are any; whether what it made has landed."""
        house, start = self.house, self.position
        end = start
        if not house.gate.pauses(house.epoch, ROUTE, start):
            end = house.gate.latest(house.epoch, ROUTE, start, 1000, 1 << 30)
        self.read += [row for _, rows in house.log.read(start, end) for row in rows.column("payload").to_pylist()]
        if end > start:
            house.gate.plan(house.epoch, ROUTE, start, end)
        planned = house.gate.planned(house.epoch, ROUTE)
        self.position, self.number = end, self.number + 1
        name = BatchName(self.query, self.number - 1)
        return house.gate.commit(house.epoch, ROUTE, planned.start, planned.end, house.stage(*payloads), name)


def remembering(max_bytes: int = 1 << 30) -> House:
    house = House(retention=Retention(max_bytes=max_bytes))
    for payload in (b"0", b"1", b"2", b"3", b"4", b"5"):
        house.append(payload)
    return house


def test_a_query_without_a_checkpoint_reads_what_is_retained_and_lands_only_what_is_new() -> None:
    house = remembering()
    house.run(0, 2, b"a")
    house.run(1, 5, b"b")
    house.gate.release(house.epoch, ROUTE, 5)
    again = Rebuilt(house, "new")
    assert again.position == 0
    assert not again.batch(b"a")
    assert again.position == 2, "cut where the last batch began: there its watermark was taken"
    assert not again.batch(b"b")
    assert again.position == 5
    assert again.batch(b"window that was not closed before"), "a batch without rows, as nothing came behind the last one"
    assert again.batch(b"c")
    assert again.read == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert house.landed() == [b"a", b"b", b"window that was not closed before", b"c"]
    assert house.gate.stats(ROUTE).state_lost is None


def test_what_came_out_of_a_batch_without_rows_does_not_come_again() -> None:
    house = remembering()
    house.run(0, 6, b"a")
    house.run(1, 6, b"window")
    again = Rebuilt(house, "new")
    assert [again.batch(b"a"), again.batch(b"window")] == [False, False]
    house.append(b"6")
    assert again.batch(b"b")
    assert house.landed() == [b"a", b"window", b"b"]


def test_a_rebuilding_that_is_cut_short_goes_on() -> None:
    house = remembering()
    house.run(0, 2, b"a")
    house.run(1, 6, b"b")
    again = Rebuilt(house, "new")
    assert not again.batch(b"a")
    house.epoch = house.gate.new_epoch()
    house.gate.begin(house.epoch, ROUTE)  # the same checkpoint: Spark asks only where the journal is
    assert not again.batch(b"b")
    assert again.batch(b"window")
    assert house.landed() == [b"a", b"b", b"window"]


def test_rows_that_are_rebuilt_from_stay_until_they_were_read() -> None:
    house = remembering(max_bytes=1 << 30)
    house.run(0, 6)
    house.gate.release(house.epoch, ROUTE, 6)
    again = Rebuilt(house, "new")
    changes = Changes()
    house.journal.retention.give_way(changes)
    assert not changes.drops
    again.batch()
    house.gate.release(house.epoch, ROUTE, 6)
    house.journal.retention.give_way(changes)
    assert changes.drops


def test_what_is_not_retained_any_more_is_told_as_lost() -> None:
    row = weight(stored_rows([b"0"], ["t"], [ROUTE]))
    house = remembering(max_bytes=2 * row)
    house.run(0, 5)
    house.gate.release(house.epoch, ROUTE, 5)
    again = Rebuilt(house, "new")
    assert again.position == 3
    assert house.gate.stats(ROUTE).state_lost == (0, 3)
    again.batch()
    again.batch()
    again.batch(b"x")
    house.gate.release(house.epoch, ROUTE, 6)
    Rebuilt(house, "third")
    assert house.gate.stats(ROUTE).state_lost == (3, 4), "of what was rebuilt before, not of what was lost then"


def test_without_retention_the_state_is_lost_and_new_rows_go_on() -> None:
    house = House()
    house.append(b"0", b"1")
    house.run(0, 2, b"a")
    house.gate.release(house.epoch, ROUTE, 2)
    house.append(b"2")
    again = Rebuilt(house, "new")
    assert (again.position, house.gate.stats(ROUTE).state_lost) == (2, (0, 2))
    again.batch()
    assert again.batch(b"b")
    assert again.read == [b"2"]


def test_a_query_without_a_memory_in_its_place_begins_at_the_consumed_offset_ever_after() -> None:
    house = remembering()
    house.run(0, 2)
    house.gate.plan(house.epoch, ROUTE, 2, 4)
    assert house.gate.commit(house.epoch, ROUTE, 2, 4, house.stage(b"a"))
    assert house.gate.begin(house.epoch, ROUTE, anew=True) == 4
    assert house.engine.state(("batch", ROUTE)) is None


def test_a_query_without_a_memory_goes_on_at_the_consumed_offset_whatever_became_of_its_checkpoint() -> None:
    house = remembering()
    for start, end in ((0, 2), (2, 5)):
        assert house.gate.begin(house.epoch, ROUTE, anew=True) == start
        house.gate.plan(house.epoch, ROUTE, start, end)
        assert house.gate.commit(house.epoch, ROUTE, start, end, house.stage(b"%d" % start))
        assert not house.gate.commit(house.epoch, ROUTE, start, end, house.stage(b"%d" % start)), "nor twice"
    assert house.landed() == [b"0", b"2"]
    assert house.gate.begin(house.epoch, ROUTE, anew=True) == 5
