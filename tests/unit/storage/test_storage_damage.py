"""A damaged store: the node starts, keeps all that can be read, sets the rest aside and says what is gone, never guessing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.damage import damaged_copy, flip_random_bit
from making.rows import numbered, numbers, outbox_rows, stored_rows

MUCH = 1 << 30
ROUTES = ("a", "b/c")
BATCH = 4
LOG = "inline"


@dataclass(slots=True)
class Truth:
    """What waits in a store, by shelf: the payload of each row is its number among all."""

    incarnation: str
    waiting: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(map(len, self.waiting.values()))


@dataclass(frozen=True, slots=True)
class Store:
    directory: Path
    truth: Truth


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """As a kill leaves it: three tables and a log, rows that wait in a journal and in two outboxes, some of them done."""
    home = tmp_path_factory.mktemp("whole")
    engine = RocksEngine(home / "live")
    journal, outboxes = Log(LOG, engine), {route: Outbox(route, engine, MUCH, MUCH) for route in ROUTES}
    given = 0
    for part in range(4):
        for turn in range(12):
            changes = Changes()
            journal.append(changes, stored_rows(*numbered(given, BATCH)))
            for outbox in outboxes.values():
                rows = numbered(given, BATCH, qos=2)
                rows[1]["qos"] = min(turn % 5, 1)  # some places are holes after the kill
                outbox.land(changes, outbox_rows(*rows))
            given += BATCH
            engine.write(changes)
            journal.publish()
            for outbox in outboxes.values():
                outbox.landed()
        polled = outboxes["a"].poll(BATCH)
        assert polled is not None
        outboxes["a"].acknowledge(np.arange(polled.first, polled.first + polled.rows - part % 2))
        changes = Changes()
        journal.consume(changes, given - 30)
        journal.trim(changes, given - 30)
        engine.write(Changes(drops=changes.drops, state=changes.later))
        if part < 3:
            engine._db.flush()
    engine._db.flush_wal(True)
    truth = Truth(engine.incarnation)
    copy_as_left(home / "live", home / "store")
    engine.close()
    again = RocksEngine(damaged_copy(home / "store", home / "look" / "store"))
    truth.waiting, truth.ends = found(again)
    again.close()
    assert truth.rows > 250
    return Store(home / "store", truth)


def found(engine: RocksEngine) -> tuple[dict[str, list[int]], dict[str, int]]:
    """What waits, and the number that the next row gets, by shelf."""
    journal = Log(LOG, engine)
    read = journal.read(journal.consumed, journal.end)
    waiting = {"journal": [number for _, batch in read for number in numbers(batch)]}
    assert len(waiting["journal"]) == journal.waiting
    ends = {"journal": journal.end}
    for route in ROUTES:
        outbox = Outbox(route, engine, MUCH, MUCH)
        rows: list[int] = []
        while (polled := outbox.poll(1000)) is not None:
            rows += numbers(polled.batch)
        assert len(rows) == outbox.depth
        waiting[route], ends[route] = rows, outbox.end
    return waiting, ends


def check(directory: Path, truth: Truth, what: object) -> RocksEngine:
    """Open what is left, and hold what it says against the truth. Returns the engine, closed."""
    engine = RocksEngine(directory)
    waiting, ends = found(engine)
    missing = 0
    for shelf, rows in waiting.items():
        assert rows == sorted(set(rows)), (what, shelf, "in order, none twice")
        missing += len(set(truth.waiting[shelf]) - set(rows))
        if not engine.losses.unknown:
            assert set(rows) <= set(truth.waiting[shelf]), (what, shelf, "nothing that was done comes back")
        assert ends[shelf] >= truth.ends[shelf] or engine.incarnation != truth.incarnation, (what, shelf, "no number twice")
    if engine.losses.unknown:
        assert engine.losses.total <= missing, (what, engine.losses.snapshot())
    else:
        assert engine.losses.total == missing, (what, engine.losses.snapshot(), missing)
    engine.close()
    sums = engine.losses.snapshot()
    again = RocksEngine(directory)
    assert again.losses.snapshot() == sums, (what, "the repaired store is sound, and remembers")
    assert found(again)[0] == waiting
    again.close()
    assert engine.incarnation == again.incarnation
    return engine


KINDS = ["*.sst", "*.log", "MANIFEST-*", "CURRENT", "OPTIONS-*", "IDENTITY", "rocksdict-config.json"]


@pytest.mark.parametrize("pattern", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_after_a_flipped_bit_anywhere_what_is_intact_is_kept_and_the_losses_are_true(
    store: Store, tmp_path: Path, pattern: str, seed: int
) -> None:
    random = Random(f"{pattern} {seed}")
    for name in sorted(path.name for path in store.directory.glob(pattern)):
        for _ in range(8):
            directory = damaged_copy(store.directory, tmp_path / "d" / "store")
            place = flip_random_bit(directory / name, random)
            check(directory, store.truth, (name, place))


def test_without_any_one_of_its_files_a_store_opens_and_says_that_something_is_missing(store: Store, tmp_path: Path) -> None:
    needed = 0
    for name in sorted(path.name for path in store.directory.iterdir() if path.is_file()):
        directory = damaged_copy(store.directory, tmp_path / "d" / "store")
        (directory / name).unlink()
        engine = check(directory, store.truth, name)
        if name.endswith((".sst", ".log")) or name == "CURRENT" or name.startswith("MANIFEST"):
            needed += 1
            assert engine.losses.unknown == 1, name
            [set_aside] = engine.losses.set_aside
            assert not (directory.with_name(set_aside) / name).exists()
            assert engine.incarnation != store.truth.incarnation
    assert needed == 6
