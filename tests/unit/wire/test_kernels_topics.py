"""The topic table, case by case; and that all kernels are ready after warm()."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa

from bridgehead.wire.topics import TopicTable


def test_a_new_topic_is_told_once() -> None:
    table = TopicTable()
    ids, new = table.lookup(pa.array(["a", "b", "a"]))
    assert (ids.tolist(), new) == ([0, 1, 0], [(0, "a"), (1, "b")])
    ids, new = table.lookup(pa.array(["b", "c"]))
    assert (ids.tolist(), new) == ([1, 2], [(2, "c")])


def test_a_full_table_starts_a_new_generation_for_the_whole_column() -> None:
    table = TopicTable(limit=2)
    table.lookup(pa.array(["a", "b"]))
    ids, new = table.lookup(pa.array(["a", "c"]))
    assert (ids.tolist(), new, table.generation) == ([0, 1], [(0, "a"), (1, "c")], 1)


def test_a_column_larger_than_the_limit_is_served_and_forgotten_after() -> None:
    table = TopicTable(limit=2)
    ids, new = table.lookup(pa.array(["a", "b", "c", "d", "e"]))
    assert (ids.tolist(), len(new), table.generation) == ([0, 1, 2, 3, 4], 5, 0)
    ids, _ = table.lookup(pa.array(["e"]))
    assert (ids.tolist(), table.generation, len(table)) == ([0], 1, 1)


def test_empty_columns_nulls_and_kindred_types_are_looked_up() -> None:
    table = TopicTable()
    assert table.lookup(pa.array([], pa.string()))[0].tolist() == []
    assert table.lookup(pa.array(["", None, "x"]))[0].tolist() == [0, 0, 1]
    assert table.lookup(pa.array(["x", ""]).dictionary_encode())[0].tolist() == [1, 0]
    assert table.lookup(pa.array(["", ""]))[0].tolist() == [0, 0]


def test_a_topic_longer_than_the_arena_is_kept() -> None:
    table = TopicTable()
    ids, _ = table.lookup(pa.array(["x" * 65_535, "y" * 200_000, "x" * 65_535]))
    assert ids.tolist() == [0, 1, 0]


def test_nothing_is_compiled_after_warm() -> None:
    """A kernel that meets an argument type for the first time would hold up traffic for seconds."""
    script = """
import numpy as np, pyarrow as pa
from bridgehead.columns.schema import WIRE
from bridgehead.wire import kernels, kernels_columns, kernels_encode, kernels_flow, kernels_scan, kernels_topics
from bridgehead.wire.flow import OutboundFlow
from bridgehead.wire.frames import encode_publishes, frame_sizes
from bridgehead.wire.intake import Intake
from bridgehead.wire.topics import TopicTable

modules = (kernels_columns, kernels_encode, kernels_flow, kernels_scan, kernels_topics)
def variants():
    found = [value for module in modules for value in vars(module).values() if hasattr(value, "signatures")]
    return [(kernel.__name__, len(kernel.signatures)) for kernel in found]

kernels.warm()
before = variants()
assert all(count == 1 for _, count in before if not _.startswith("_")), before

data, inbound, intake = b"\\x32\\x06\\x00\\x01a\\x00\\x01x", np.zeros(65536, np.uint8), Intake()
for buf in (data, bytearray(data), memoryview(data), memoryview(bytearray(data)), np.frombuffer(data, np.uint8)):
    intake.scan(buf, 0, len(data), 4, 3, inbound, 1000, from_server=True)
rows, arena = intake.take()
rows.setflags(write=False)
batch = pa.RecordBatch.from_arrays(list(kernels_columns.to_columns(rows[::2], arena)), schema=WIRE)
qos = np.ones(3, np.int32)
encode_publishes(batch, 4, qos, qos, qos, rows=np.arange(3)[::-1], expiry=qos, retain=True)
encode_publishes(batch, 5, qos, qos, True, subscription_ids=(1,))
frame_sizes(batch, 5, qos, subscription_ids=[1])
flow = OutboundFlow(9)
flow.take(np.int32(1), qos, qos)
flow.acks(intake.scan(b"\\x40\\x02\\x00\\x01", 0, 4, 5, 3, inbound).acks[::1], 5)
TopicTable().lookup(batch.column("topic"))
assert variants() == before, (before, variants())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_kernels_work_where_no_cache_can_be_written() -> None:
    """numba refuses to cache when no place for it can be written; here, because it may look in none that fits."""
    script = """
import pyarrow as pa
from bridgehead.wire.topics import TopicTable
from bridgehead.wire.kernels_topics import find_topics
assert type(find_topics._cache).__name__ == "NullCache"
assert TopicTable().lookup(pa.array(["a"]))[0].tolist() == [0]
"""
    environment = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment)
