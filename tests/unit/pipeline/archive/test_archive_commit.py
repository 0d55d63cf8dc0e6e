"""The node's side: a commit names the files of its batch in the write that moves the consumed offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.columns.batches import Batch, constant
from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.rules import RouteRules, apply
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from spark.host import stored_rows

ROUTE = "route"
FILES = {"path": "/lake", "files": [["_pending/x", "date=1/part-x.parquet"]], "version": 1}


class House:
    """One route with a log of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.journal = Journal(engine, 1 << 60)
        self.log = self.journal.log(ROUTE)
        self.gate = Gate(engine, self.journal, {ROUTE: Outbox(ROUTE, engine, 1 << 60, 1 << 60)})
        self.epoch = self.gate.new_epoch()

    def append(self, rows: Batch) -> None:
        changes = Changes()
        self.log.append(changes, rows)
        self.engine.write(changes)
        self.log.publish()

    def commit(self, start: int, end: int, files: Any) -> bool:
        self.gate.plan(self.epoch, ROUTE, start, end)
        rows = self.gate.read(self.epoch, self.log.incarnation, ROUTE, start, end)
        staged = Staged.of([apply(each, RouteRules(ROUTE)) for _, each in rows], [ROUTE] * len(rows))
        self.gate.stage(self.epoch, ROUTE, "p", staged)
        part = Part("p", start, staged.rows, staged.checksum)
        return self.gate.commit(self.epoch, ROUTE, start, end, [part], None, files)

    @property
    def archived(self) -> Any:
        return self.gate.archived(self.epoch, ROUTE)


def rows(qos: int = 1) -> Batch:
    batch = stored_rows([b"0", b"1"], ["t"], [ROUTE])
    at = batch.schema.get_field_index("qos")
    return batch.set_column(at, batch.schema.field("qos"), constant(qos, batch.schema.field("qos").type, 2))


@pytest.fixture
def house() -> House:
    house = House(MemoryEngine())
    house.append(rows())
    return house


def test_the_files_of_the_last_commit_that_had_some_are_known(house: House) -> None:
    assert house.archived is None
    assert house.commit(0, 1, FILES)
    assert house.commit(1, 2, None)
    assert house.archived == FILES


def test_a_commit_that_was_made_before_names_nothing(house: House) -> None:
    assert house.commit(0, 2, FILES)
    assert not house.commit(0, 2, {**FILES, "version": 2})
    assert house.archived == FILES


def test_a_refused_commit_names_nothing(house: House) -> None:
    with pytest.raises(RefusedError):
        house.commit(1, 2, FILES)
    assert house.archived is None


def test_a_driver_whose_epoch_is_over_is_told_nothing(house: House) -> None:
    house.gate.new_epoch()
    with pytest.raises(StaleEpochError):
        _ = house.archived


@pytest.mark.parametrize("qos", [0, 1])
def test_files_and_consumed_offset_survive_a_restart_together_even_if_no_row_does(tmp_path: Path, qos: int) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False)
    house = House(engine)
    house.append(rows(qos))
    house.commit(0, 2, FILES)
    state = dict(engine.states(("consumed",)))
    engine.close()
    again = RocksEngine(tmp_path / "store", sync=False)
    assert dict(again.states(("consumed",))) == state == {("consumed", ROUTE): 2}
    assert House(again).archived == FILES
    again.close()
