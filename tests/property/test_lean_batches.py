"""Any batch, whole or a part of one, comes back from its few bytes as it was."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.columns.schema import DEAD, OUTBOX, STORED, WIRE
from bridgehead.storage import kernels_lean as k
from bridgehead.storage import lean
from bridgehead.storage.scratch import Scratch

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


class Twin:
    """The body of a batch, made plainly: for each column a code, and what it says in parts of 8 bytes."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.codes: list[int] = []
        self.body = b""
        for field, column in zip(batch.schema, batch.columns, strict=True):
            self.add(field.type, column)

    def add(self, kind: pa.DataType, column: pa.Array) -> None:
        rows, there = column.to_pylist(), column.is_valid().to_pylist()
        if not any(there):
            self.codes.append(k.NULL)
            return
        if not all(there):
            self.put(*bits(there))
        alike = all(there) and all(row == rows[0] for row in rows)
        code, parts = self.said(kind, column, rows, alike=alike)
        self.codes.append(code | (0 if all(there) else k.HOLES))
        self.put(*parts)

    def said(self, kind: pa.DataType, column: pa.Array, rows: list[Any], *, alike: bool) -> tuple[int, list[bytes]]:
        if pa.types.is_dictionary(kind):
            names = column.dictionary.to_pylist()
            if alike and len(names) == 1:
                return k.ONE, [*texts(names)]
            said, places = [number(len(names)), *texts(names)], [at or 0 for at in column.indices.to_pylist()]
            few = len(names) <= k.MOST_FEW
            return (k.FEW, [*said, bytes(places)]) if few else (k.PLAIN, [*said, np.array(places, np.int32).tobytes()])
        if pa.types.is_list(kind):
            lists = [row or [] for row in rows]
            if alike and not lists[0]:
                return k.EMPTY, []
            pairs = lists[0] if alike else [pair for row in lists for pair in row]
            said = [*texts([pair["key"] for pair in pairs]), *texts([pair["value"] for pair in pairs])]
            return (k.ONE, [number(len(pairs)), *said]) if alike else (k.PLAIN, [ends(map(len, lists)), *said])
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return (k.ONE, [*texts(rows[:1])]) if alike else (k.PLAIN, [*texts([row or b"" for row in rows])])
        if pa.types.is_boolean(kind):
            return (k.SAME, [number(rows[0])]) if alike else (k.PLAIN, [*bits(rows)])
        numbers = column.cast(pa.int64()).fill_null(0).to_pylist()
        wide = "q" if kind.bit_width == 64 else "i"
        return (k.SAME, [number(numbers[0])]) if alike else (k.PLAIN, [struct.pack(f"<{len(rows)}{wide}", *numbers)])

    def put(self, *parts: bytes) -> None:
        for part in parts:
            self.body += part + bytes(-len(part) % 8)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def bits(flags: Sequence[bool | None]) -> Iterator[bytes]:
    yield np.packbits([bool(flag) for flag in flags], bitorder="little").tobytes()


def ends(lengths: Any) -> bytes:
    return np.cumsum([0, *lengths]).astype(np.int32).tobytes()


def texts(rows: Sequence[str | bytes]) -> Iterator[bytes]:
    raw = [row.encode() if isinstance(row, str) else row for row in rows]
    yield ends(map(len, raw))
    yield b"".join(raw)


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


@given(batches())
def test_the_kernel_writes_what_its_plain_twin_writes(batch: pa.RecordBatch) -> None:
    head, body = lean.pack(batch)
    if batch.num_rows and batch.schema != WIRE:
        twin = Twin(batch)
        assert (list(head[9 : 9 + len(twin.codes)]), bytes(body)) == (twin.codes, twin.body)


def test_texts_without_a_value_are_kept_as_arrow_keeps_them() -> None:
    rows = [{"user_properties": [{"key": "a", "value": None}]}, {"user_properties": [{"key": None, "value": "b"}]}]
    batch = pa.RecordBatch.from_pylist(rows, schema=OUTBOX)
    assert lean.unpack(memoryview(b"".join(lean.pack(batch)))).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("distinct", [1, 256, 257, 1000])
def test_labels_come_back_however_many_there_are(distinct: int) -> None:
    names = [f"client {number % distinct}" for number in range(1000)]
    arrays = [pa.array(names, field.type) if field.name == "client_id" else pa.nulls(1000, field.type) for field in STORED]
    batch = pa.RecordBatch.from_arrays(arrays, schema=STORED)
    again = lean.unpack(memoryview(b"".join(lean.pack(batch))))
    assert again.column("client_id").type == batch.column("client_id").type
    assert again.column("client_id").to_pylist() == names
    assert sum(map(len, lean.pack(batch))) < 1000 * 4 + distinct * 20 + 100, "each name is written once"
    if distinct > 1:
        twin = Twin(batch)
        assert bytes(lean.pack(batch)[1]) == twin.body


def test_long_labels_of_many_rows_are_said_once_however_long_all_of_them_would_be() -> None:
    rows = 40_000
    names = pa.array([f"{number:05}" + "x" * 65_530 for number in range(300)])
    labels = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows, dtype=np.int32) % 300), names)
    batch = pa.RecordBatch.from_arrays(
        [labels if field.name == "client_id" else pa.nulls(rows, field.type) for field in STORED], schema=STORED)
    packed = b"".join(lean.pack(batch))
    assert len(packed) < 300 * 65_600 + 4 * rows
    assert lean.unpack(memoryview(packed)).column("client_id").equals(labels)


def test_no_batch_makes_the_kernels_compile_again() -> None:
    """A kernel that meets an argument type for the first time would hold up traffic for seconds."""
    lean.warm()
    batch = pa.RecordBatch.from_pylist([{"payload": b"p", "client_id": name} for name in "abc"], schema=STORED)
    for each in (batch, batch.slice(1), pa.ipc.read_record_batch(pa.RecordBatch.from_pylist([{}], OUTBOX).serialize(), OUTBOX)):
        lean.pack(each, Scratch(10).take)
        lean.pack(each, Scratch().take)
    assert (len(k.measure.signatures), len(k.write.signatures)) == (1, 1)  # type: ignore[attr-defined]


def test_what_all_rows_say_takes_no_room_in_every_row() -> None:
    said = {"qos": 1, "retain": False, "wire_qos": 1, "content_type": "text", "user_properties": [{"key": "k", "value": "v"}]}
    rows = [{"topic": "t" * (number % 2), "payload": b"p" * (number % 3), **said} for number in range(1000)]
    batch = pa.RecordBatch.from_pylist(rows, schema=OUTBOX)
    assert sum(map(len, lean.pack(batch))) < 1000 * (4 + 1 + 4 + 1) + 200


def test_text_that_repeats_itself_takes_a_fraction_of_its_room_and_noise_no_more_than_its_own() -> None:
    told = [{"payload": b'{"sensor": "press-7", "celsius": %d.5, "ok": true}' % number} for number in range(1000)]
    noise = Random(1)
    noisy = [{"payload": noise.randbytes(50)} for _ in range(1000)]
    packed = [lean.pack(pa.RecordBatch.from_pylist(rows, schema=OUTBOX)) for rows in (told, noisy)]
    sizes = [sum(map(len, lean.squeezed(*each))) for each in packed]
    assert sizes[0] < 1000 * 20
    assert 1000 * 50 < sizes[1] < 1000 * (50 + 4 + 4 + 1) + 1000
