"""Any batch, whole or a part of one, comes back from its few bytes as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.columns.schema import DEAD, OUTBOX, STORED, WIRE
from bridgehead.storage import lean

NOISE = Random(1).randbytes(2000)
TEXTS = st.sampled_from(["", "a", "b/c", "träume"])
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "binary": st.binary(max_size=5) | st.just(b"says the same, again and again; " * 50) | st.just(NOISE),
    "int32": st.integers(-1, 1),
    "int64": st.integers(-1, 1) | st.just(2**62),
    "bool": st.booleans(),
    "timestamp[us, tz=UTC]": st.sampled_from([0, 7]).map(lambda us: datetime.fromtimestamp(us, UTC)),
    "list": st.lists(st.fixed_dictionaries({"key": TEXTS, "value": TEXTS}), max_size=2),
}


def cells(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return CELLS["list"]
    return CELLS[str(kind.value_type if pa.types.is_dictionary(kind) else kind)]


def columns(kind: pa.DataType, rows: int) -> st.SearchStrategy[list[Any]]:
    """Few columns differ from row to row: the same everywhere, nothing anywhere, a mixture."""
    same = cells(kind).map(lambda cell: [cell] * rows)
    mixed = st.lists(st.none() | cells(kind), min_size=rows, max_size=rows)
    return same | st.just([None] * rows) | mixed


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    schema = draw(st.sampled_from([STORED, OUTBOX, DEAD, WIRE]))
    rows = draw(st.integers(0, 9))
    arrays = [pa.array(draw(columns(field.type, rows)), field.type) for field in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch.slice(draw(st.integers(0, 3)), draw(st.integers(0, 9)))


@given(batches(), st.binary(max_size=9))
def test_a_batch_comes_back_as_it_was_whatever_stands_behind_it(batch: pa.RecordBatch, behind: bytes) -> None:
    again = lean.unpack(memoryview(b"".join(lean.pack(batch)) + behind))
    again.validate(full=True)
    assert again.schema.equals(batch.schema)
    assert again.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("distinct", [1, 256, 257, 1000])
def test_labels_come_back_however_many_there_are(distinct: int) -> None:
    names = [f"client {number % distinct}" for number in range(1000)]
    arrays = [pa.array(names, field.type) if field.name == "client_id" else pa.nulls(1000, field.type) for field in STORED]
    batch = pa.RecordBatch.from_arrays(arrays, schema=STORED)
    again = lean.unpack(memoryview(b"".join(lean.pack(batch))))
    assert again.column("client_id").type == batch.column("client_id").type
    assert again.column("client_id").to_pylist() == names


def test_what_all_rows_say_takes_no_room_in_every_row() -> None:
    rows = [{"topic": "t", "payload": b"p", "qos": 1, "retain": False, "wire_qos": 1, "user_properties": []}] * 1000
    batch = pa.RecordBatch.from_pylist(rows, schema=OUTBOX)
    assert sum(map(len, lean.pack(batch))) < 1000 * (4 + 1 + 4 + 1) + 1000


def test_text_that_repeats_itself_takes_a_fraction_of_its_room_and_noise_no_more_than_its_own() -> None:
    told = [{"payload": b'{"sensor": "press-7", "celsius": %d.5, "ok": true}' % number} for number in range(1000)]
    noise = Random(1)
    noisy = [{"payload": noise.randbytes(50)} for _ in range(1000)]
    packed = [lean.pack(pa.RecordBatch.from_pylist(rows, schema=OUTBOX)) for rows in (told, noisy)]
    sizes = [sum(map(len, lean.squeezed(*each))) for each in packed]
    assert sizes[0] < 1000 * 20
    assert 1000 * 50 < sizes[1] < 1000 * (50 + 4 + 4 + 1) + 1000
