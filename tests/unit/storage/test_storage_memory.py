"""The memory engine: what is written is there at once, and as one."""

from __future__ import annotations

import pytest

from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.memory import MemoryEngine
from making.rows import numbered, numbers, outbox_rows

SHELF = ("outbox", "a/b")


def test_a_write_puts_drops_and_keeps_state() -> None:
    engine: Engine = MemoryEngine()
    one, two = outbox_rows(*numbered(0, 1)), outbox_rows(*numbered(1, 1))
    engine.write(Changes(puts=[(SHELF, 5, one), (SHELF, 2, two)], state={("s",): 7}))
    assert list(engine.numbers(SHELF)) == [2, 5]
    assert numbers(engine.read(SHELF, 5)) == [0]
    assert engine.state(("s",)) == 7
    engine.write(Changes(drops=[(SHELF, 5)]))
    assert list(engine.numbers(SHELF)) == [2]
    with pytest.raises(KeyError):
        engine.read(SHELF, 5)


def test_shelves_are_apart_however_their_names_are_spelled() -> None:
    engine = MemoryEngine()
    engine.write(Changes(puts=[(("outbox", "a", "b"), 1, outbox_rows({}))]))
    assert list(engine.numbers(SHELF)) == []
    assert engine.state(SHELF) is None


def test_what_is_written_is_as_safe_as_memory_is() -> None:
    told: list[int] = []
    MemoryEngine().when_synced(lambda: told.append(1))
    assert told == [1]
