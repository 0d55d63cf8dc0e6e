"""Retained messages on the disk against a dictionary: a restart finds those of QoS 1 and 2, and none that was overtaken."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.broker import retained
from bridgehead.broker.retained import Retained
from bridgehead.broker.retainedshelf import SHELF
from bridgehead.storage.engine import Changes
from bridgehead.storage.rocks import RocksEngine
from making.lives import SOON_FULL
from making.rows import outbox_rows

message = st.tuples(st.sampled_from("abcdef"), st.sampled_from([b"", b"1", b"2"]), st.integers(0, 2))
turns = st.lists(st.lists(message, min_size=1, max_size=5), max_size=12)


def found(store: Retained) -> dict[str, bytes]:
    batch = store.matching("#")
    rows = batch.to_pylist() if batch is not None else []
    assert len({row["topic"] for row in rows}) == len(rows)
    return {row["topic"]: row["payload"] for row in rows}


@settings(max_examples=60, deadline=None)
@given(st.lists(turns, max_size=4))
def test_each_life_finds_the_last_message_of_each_topic_if_it_was_for_the_disk(
    lives: list[list[list[tuple[str, bytes, int]]]],
) -> None:
    directory = Path(tempfile.mkdtemp())
    engine = RocksEngine(directory / "store", sync=False, front_bytes=SOON_FULL)
    model: dict[str, tuple[bytes, int]] = {}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retained, "OVERTAKEN_AT_LEAST", 4)
            for life in lives:
                store = Retained(engine)
                model = {topic: (payload, qos) for topic, (payload, qos) in model.items() if qos}
                assert found(store) == {topic: payload for topic, (payload, _) in model.items()}
                for messages in life:
                    changes = Changes()
                    rows = [{"topic": t, "payload": p, "qos": qos, "retain": True} for t, p, qos in messages]
                    store.keep(changes, outbox_rows(*rows))
                    engine.write(changes)
                    for topic, payload, qos in messages:
                        model.pop(topic, None)
                        if payload:
                            model[topic] = payload, qos
                    assert found(store) == {topic: payload for topic, (payload, _) in model.items()}
            store = Retained(engine)
            for topic in model:
                changes = Changes()
                store.keep(changes, outbox_rows({"topic": topic, "payload": b"", "qos": 0, "retain": True}))
                engine.write(changes)
        assert list(engine.numbers(SHELF)) == []
        assert list(engine.notes(SHELF)) == []
    finally:
        engine.close()
        shutil.rmtree(directory)
