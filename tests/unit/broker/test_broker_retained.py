"""Retained messages: the last one of each topic, bounded."""

from __future__ import annotations

import pytest

from bridgehead.broker import retained
from bridgehead.broker.retained import Retained
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from making.rows import outbox_rows


def keep(store: Retained, *rows: tuple[str, bytes]) -> None:
    store.keep(Changes(), outbox_rows(*[{"topic": topic, "payload": payload, "retain": True} for topic, payload in rows]))


def found(store: Retained, topic_filter: str) -> dict[str, bytes]:
    batch = store.matching(topic_filter)
    rows = batch.to_pylist() if batch is not None else []
    assert len({row["topic"] for row in rows}) == len(rows)
    return {row["topic"]: row["payload"] for row in rows}


def test_the_last_message_of_a_topic_is_kept_also_within_one_batch() -> None:
    store = Retained(MemoryEngine())
    keep(store, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    assert found(store, "#") == {"a": b"3", "b": b"2"}


def test_rows_without_the_flag_are_not_kept() -> None:
    store = Retained(MemoryEngine())
    store.keep(Changes(), outbox_rows({"topic": "a", "payload": b"1"}, {"topic": "b", "payload": b"2", "retain": True}))
    assert found(store, "#") == {"b": b"2"}


def test_an_empty_message_deletes_and_is_not_kept() -> None:
    store = Retained(MemoryEngine())
    keep(store, ("a", b"1"), ("a", b""), ("b", b""))
    assert len(store) == 0
    keep(store, ("a", b""), ("a", b"2"))
    assert found(store, "a") == {"a": b"2"}


def test_filters_choose_what_comes() -> None:
    store = Retained(MemoryEngine())
    keep(store, ("a/1", b"1"), ("a/2", b"2"), ("b", b"3"), ("$sys/x", b"4"))
    assert found(store, "a/+") == {"a/1": b"1", "a/2": b"2"}
    assert found(store, "b") == {"b": b"3"}
    assert found(store, "c") == {}
    assert found(store, "#") == {"a/1": b"1", "a/2": b"2", "b": b"3"}
    assert found(store, "$sys/#") == {"$sys/x": b"4"}


def test_one_topic_too_many_is_refused_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "RETAINED_LIMIT", 2)
    store = Retained(MemoryEngine())
    keep(store, ("a", b"1"), ("b", b"2"), ("c", b"3"), ("a", b"4"))
    assert found(store, "#") == {"a": b"4", "b": b"2"}
    assert store.refused == 1


def test_a_kept_row_does_not_keep_its_whole_batch_in_memory() -> None:
    store = Retained(MemoryEngine())
    keep(store, *[(f"t{i}", bytes(1000)) for i in range(100)])
    row = store.matching("t5")
    assert row is not None
    assert row.get_total_buffer_size() < 5000


def test_what_was_overtaken_does_not_stay_in_memory() -> None:
    store = Retained(MemoryEngine())
    for i in range(100):
        keep(store, *[(f"t{j}", str(i).encode()) for j in range(60)])
    assert store._rows <= 2 * 60 + retained.OVERTAKEN_AT_LEAST
    assert found(store, "#") == {f"t{j}": b"99" for j in range(60)}


def test_a_topic_of_very_many_levels_is_found_and_costs_no_more_than_its_letters() -> None:
    store = Retained(MemoryEngine())
    deep = "/" * 60_000
    keep(store, (deep, b"x"), ("a", b"y"))
    assert found(store, "#") == {deep: b"x", "a": b"y"}
    assert found(store, "+/#") == {deep: b"x", "a": b"y"}
    keep(store, (deep, b""))
    assert found(store, "#") == {"a": b"y"}
