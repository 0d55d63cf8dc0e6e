"""The topic table gives the numbers a dict would give, over columns, slices, collisions and generations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.wire import kernels_topics
from bridgehead.wire.topics import TopicTable

# Topics that share their first or last eight bytes, their length, or nearly everything.
topics = st.one_of(
    st.text(max_size=12),
    st.text("ab/", min_size=6, max_size=20),
    st.integers(0, 40).map(lambda i: f"factory/line/{i}/temperature"),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(topics, max_size=12), max_size=6), st.integers(1, 30), st.integers(0, 3))
def test_the_table_numbers_topics_as_a_dict_does(columns: list[list[str]], limit: int, skip: int) -> None:
    table, known, generation = TopicTable(limit), dict[str, int](), 0
    for column in columns:
        array = pa.array(["unseen"] * skip + column, pa.string()).slice(skip)
        ids, new = table.lookup(array)
        overflows = bool(known) and not known.keys() >= set(column) and len(known.keys() | column) > limit
        if column and (len(known) > limit or overflows):
            known, generation = {}, generation + 1
        expected_new = []
        for topic in column:
            if topic not in known:
                expected_new.append((len(known), topic))
                known[topic] = len(known)
        assert ids.tolist() == [known[topic] for topic in column]
        assert (new, table.generation, len(table)) == (expected_new, generation, len(known))


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_topics_with_the_same_hash_are_told_apart(one: str, other: str) -> None:
    if one == other:
        return
    table = TopicTable()
    table.lookup(pa.array([one]))
    # Put the first topic where the second belongs, with the second's hash: only the bytes can tell them apart now.
    name = np.frombuffer(bytearray(other.encode()), np.uint8)
    code = kernels_topics._hash(name.ctypes.data, len(name), int(table._counters[kernels_topics.SEED]))
    table._slots.fill(0)
    table._slots[code & (len(table._slots) - 1)] = code, 1
    ids, new = table.lookup(pa.array([other, other]))
    assert (ids.tolist(), new) == ([1, 1], [(1, other)])


def test_the_bytes_decide_where_hashes_are_equal() -> None:
    one = np.frombuffer(bytearray(b"0123456789abcdef!"), np.uint8)
    for length in range(18):
        for changed in range(length):
            other = one.copy()
            other[changed] ^= 1
            assert kernels_topics._same(one.ctypes.data, one.copy().ctypes.data, length)
            assert not kernels_topics._same(one.ctypes.data, other.ctypes.data, length)


def test_many_topics_of_any_length_keep_their_numbers() -> None:
    table = TopicTable(limit=20_000)
    names = [f"{'x' * (i % 300)}/{i}" for i in range(20_000)]
    for start in range(0, len(names), 3000):
        ids, new = table.lookup(pa.array(names[start : start + 3000]))
        assert [number for number, _ in new] == ids.tolist()
    ids, new = table.lookup(pa.array(names))
    assert (ids.tolist(), new, table.generation) == (list(range(20_000)), [], 0)
    ids, new = table.lookup(pa.array(["one more", names[7]]))
    assert (ids.tolist(), table.generation, len(table)) == ([0, 1], 1, 2)
