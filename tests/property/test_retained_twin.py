"""Retained messages against a dictionary that is matched topic by topic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.broker import retained
from bridgehead.broker.retained import Retained
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.wire.topicnames import matches, valid_filter
from making.rows import outbox_rows

level = st.sampled_from(["a", "b", "", "$x"])
topic = st.lists(level, min_size=1, max_size=5).map("/".join).filter(bool)
topic_filter = (
    st.lists(level | st.just("+"), max_size=4)
    .flatmap(lambda levels: st.sampled_from([[*levels, "#"], levels or ["a"]]))
    .map("/".join)
    .filter(lambda one: valid_filter(one))
)
message = st.tuples(topic, st.sampled_from([b"", b"1", b"2", b"3"]), st.booleans())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(message, min_size=1, max_size=6), max_size=8), st.lists(topic_filter, min_size=1, max_size=5))
def test_the_last_message_of_each_topic_is_found_by_every_filter_that_matches(
    turns: list[list[tuple[str, bytes, bool]]], filters: list[str]
) -> None:
    store, model = Retained(MemoryEngine()), dict[str, bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retained, "OVERTAKEN_AT_LEAST", 3)
        patch.setattr(retained, "DEEPEST", 4)
        for messages in turns:
            store.keep(Changes(), outbox_rows(*[{"topic": t, "payload": p, "retain": r} for t, p, r in messages]))
            for name, payload, flag in messages:
                if flag:
                    model.pop(name, None)
                    if payload:
                        model[name] = payload
        assert len(store) == len(model)
        for one in filters:
            batch = store.matching(one)
            rows = batch.to_pylist() if batch is not None else []
            found = {row["topic"]: row["payload"] for row in rows}
            assert len(found) == len(rows)
            assert found == {name: payload for name, payload in model.items() if matches(one, name)}
        for name in model:
            store.keep(Changes(), outbox_rows({"topic": name, "payload": b"", "retain": True}))
    assert (len(store), store._root.children, store._deep) == (0, {}, set())
