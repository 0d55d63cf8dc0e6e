"""Dead letters: they come in the write in which they leave the outbox, are bounded, and leave by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehead.columns.batches import weight
from bridgehead.storage.deadletters import DROPPED, FULL, DeadLetters, Deaths, routes_with_dead_letters
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.rows import numbered, numbers, outbox_rows


class Route:
    """An outbox and its dead letters; ``bury`` brings rows numbered as they land."""

    def __init__(self, engine: Engine, max_rows: int = 10_000, max_bytes: int = 1 << 20) -> None:
        self.engine = engine
        self.outbox = Outbox("r", engine, 1_000_000, 1 << 30)
        self.dead = self.outbox.dead = DeadLetters("r", engine, max_rows, max_bytes)
        self.next = 0

    def land(self, count: int, **given: Any) -> None:
        changes = Changes()
        self.outbox.land(changes, outbox_rows(*numbered(self.next, count, **given)))
        self.engine.write(changes)
        self.outbox.landed()
        self.next += count

    def bury(self, count: int, reason: str = "refused-0x87", **given: Any) -> None:
        self.land(count, **given)
        while (polled := self.outbox.poll(1000)) is not None:
            self.outbox.bury(Deaths(polled.seqs, [reason] * polled.rows, [1] * polled.rows), 7)

    def remove(self, *ids: int) -> list[int]:
        changes = Changes()
        rows = self.dead.remove(changes, np.array(ids, np.int64), DROPPED)
        self.engine.write(changes)
        return [number for batch in rows for number in numbers(batch)]

    def kept(self) -> list[int]:
        return kept(self.dead)


def kept(dead: DeadLetters) -> list[int]:
    assert len(dead) == len(dead.ids())
    return [number for _, batch in dead.rows() for number in numbers(batch)]


@pytest.fixture
def route() -> Route:
    return Route(MemoryEngine())


def test_a_buried_row_leaves_the_outbox_and_keeps_all_it_had(route: Route) -> None:
    route.bury(1, topic="a/b", qos=2, content_type="text/plain", user_properties=[{"key": "k", "value": "v"}])
    [(ids, batch)] = list(route.dead.rows())
    [row] = batch.to_pylist()
    assert ids.tolist() == [0]
    assert (row["topic"], row["qos"], row["content_type"]) == ("a/b", 2, "text/plain")
    assert row["user_properties"] == [{"key": "k", "value": "v"}]
    assert (row["reason"], row["attempts"], row["died_at"].microsecond) == ("refused-0x87", 1, 7)
    assert (route.outbox.depth, route.outbox.dead_lettered) == (0, {"refused-0x87": 1})


def test_only_rows_that_are_marked_can_be_buried(route: Route) -> None:
    route.land(3)
    polled = route.outbox.poll(2)
    assert polled is not None
    route.outbox.acknowledge(polled.seqs[:1])
    route.outbox.bury(Deaths(np.arange(9), ["too-large"] * 9, [0] * 9), 0)
    assert route.kept() == [1]
    assert (route.outbox.depth, route.outbox.dead_lettered) == (1, {"too-large": 1})


def test_beyond_the_rows_kept_the_oldest_give_way_and_are_counted(route: Route) -> None:
    route = Route(MemoryEngine(), max_rows=5)
    route.bury(3)
    route.bury(3)
    assert route.kept() == [1, 2, 3, 4, 5]
    route.bury(70)
    assert route.kept() == [71, 72, 73, 74, 75]
    assert route.dead.left == {FULL: 71}
    assert route.outbox.dead_lettered == {"refused-0x87": 76}


def test_beyond_the_bytes_kept_the_oldest_give_way_and_what_is_larger_than_all_is_not_kept() -> None:
    route = Route(MemoryEngine(), max_bytes=5000)
    for _ in range(6):
        route.bury(1, content_type="x" * 1000)
    assert route.kept() == [2, 3, 4, 5]
    assert route.dead.weight <= 5000
    route.bury(1, content_type="x" * 6000)
    assert route.kept() == [2, 3, 4, 5]
    assert route.dead.left == {FULL: 3}


def test_rows_leave_by_their_ids_and_ids_never_repeat(route: Route) -> None:
    for _ in range(40):  # enough to be merged
        route.bury(1)
    assert route.remove(3, 39, 4) == [3, 4, 39]
    assert route.kept() == [n for n in range(39) if n not in (3, 4)]
    assert route.dead.left == {DROPPED: 3}
    route.bury(1)
    assert int(route.dead.ids()[-1]) == 40
    assert route.dead.weight == sum(weight(batch) for _, batch in route.dead.rows())


def test_dead_letters_are_there_again_after_a_kill_but_those_of_qos_0(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store")
    route = Route(engine)
    route.bury(2)
    route.bury(1, qos=0)
    route.bury(3)
    route.remove(0, 4)
    before = route.dead.weight
    copy_as_left(tmp_path / "store", tmp_path / "copy")
    engine.close()
    again = RocksEngine(tmp_path / "copy")
    dead = DeadLetters("r", again)
    assert kept(dead) == [1, 3, 5]
    assert dead.weight < before
    assert dead.left == {DROPPED: 2}
    assert routes_with_dead_letters(again) == ["r"]
    outbox = Outbox("r", again, 1000, 1 << 30)
    assert outbox.depth == 0
    more = Route(again)
    more.next = 100
    more.bury(1)
    assert kept(more.dead) == [1, 3, 5, 100]
    assert int(more.dead.ids()[-1]) > 5
    again.close()
