"""Batches in few bytes: what a column says in all its rows is said once, and not in every row.

Most columns of most batches do: no property, one QoS, one time of arrival, a handful of clients, the user properties that a
route adds. Whatever is written is copied, checked and synced byte by byte, so these columns would be a third of what a durable
message costs. A batch of a schema known here becomes a head (schema, rows, a code for each column) and, at a multiple of 8,
what the codes say of each column (``kernels_lean``). Any other batch is Arrow's stream, which describes itself. What stays is
squeezed if LZ4 makes it clearly smaller: what devices say is mostly text that repeats itself, and trying costs next to nothing
where it does not.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, constant, constant_label
from bridgehead.columns.schema import DEAD, LABEL, OUTBOX, STORED, TIMESTAMP, USER_PROPERTIES, USER_PROPERTY
from bridgehead.storage import kernels_lean as k

SCHEMAS: Final = {1: STORED, 2: OUTBOX, 3: DEAD}
"""By their number on the disk, which never changes; 0 is Arrow's stream."""

Body: TypeAlias = "pa.Buffer | memoryview"
"""What stands behind a head."""

Room = Callable[[int], npt.NDArray[np.uint8]]
"""Gives memory to pack into, of so many bytes."""


def fresh(size: int) -> npt.NDArray[np.uint8]:
    return np.empty(size, np.uint8)


_HEAD = struct.Struct("<IIB")  # bytes of the whole head, rows, schema; a code for each column follows
_SQUEEZED = struct.Struct("<II")  # before a squeezed body: its bytes squeezed, and as they were

SQUEEZED: Final = 0x80
"""Beside the number of the schema: the body is squeezed."""

_WORTH_TRYING: Final = 1024
"""Bytes of a body below which there is little to gain."""

_WORTH_KEEPING: Final = 0.9
"""Of the bytes of a body, at most: otherwise whoever reads it would unsqueeze for nothing."""

_LZ4: Final = pa.Codec("lz4_raw")

CHECKSUM_BYTES: Final = 4
"""What stands before a packed batch where it is kept."""

_KINDS: Final = {
    pa.int32().id: k.INT32,
    pa.int64().id: k.INT64,
    TIMESTAMP.id: k.INT64,
    pa.bool_().id: k.FLAG,
    pa.string().id: k.TEXT,
    pa.binary().id: k.TEXT,
    LABEL.id: k.LABEL,
    USER_PROPERTIES.id: k.LIST,
}
_BY_COLUMNS: Final = {len(schema): number for number, schema in SCHEMAS.items()}

_address_in = ctypes.pythonapi.PyCapsule_GetPointer
_address_in.restype = ctypes.c_void_p
_address_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def pack(batch: Batch, room: Room = fresh) -> tuple[bytes, Body]:
    """Head and body: whoever joins them copies them anyway. The body is in ``room``, if it is ours."""
    number = _BY_COLUMNS.get(batch.num_columns, 0)
    if not number or not batch.num_rows or not batch.schema.equals(SCHEMAS[number]):
        return _as_stream(batch)
    _, described = batch.__arrow_c_array__()  # while this lives, what it describes stays where it is
    address, kinds = _address_in(described, b"arrow_array"), _kinds(number)
    codes = np.empty(len(kinds), np.uint8)
    size = k.measure(address, kinds, codes)
    if size < 0:
        return _as_stream(batch)
    body = room(size)
    k.write(address, kinds, codes, body)
    return _head(number, batch.num_rows, codes.tobytes()), body.data


def warm() -> None:
    """Compile it, or load it, so that no message waits for it."""
    pack(pa.RecordBatch.from_pylist([{}], schema=STORED))


def squeezed(head: bytes, body: Body) -> tuple[bytes, Body]:
    """The same with a squeezed body, if that is worth it."""
    if len(body) >= _WORTH_TRYING:
        small = _LZ4.compress(body)
        if len(small) < len(body) * _WORTH_KEEPING:
            size, rows, number = _HEAD.unpack_from(head)
            told = _HEAD.pack(size, rows, number | SQUEEZED) + head[_HEAD.size :]
            return told + _SQUEEZED.pack(len(small), len(body)), small
    return head, body


def unpack(body: memoryview) -> Batch:
    size, rows, number = _HEAD.unpack_from(body)
    columns_at = pa.py_buffer(body[size:])
    if number & SQUEEZED:
        number ^= SQUEEZED
        columns_at = _unsqueezed(body[size:])
    if not number:
        with pa.ipc.open_stream(columns_at) as reader:
            return reader.read_next_batch()
    parts, schema = _Parts(columns_at, rows), SCHEMAS[number]
    codes = body[_HEAD.size : _HEAD.size + len(schema)]
    columns = [parts.column(code, field.type) for code, field in zip(codes, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Parts:
    """Reads one column after the other, without a copy where nothing was left out."""

    def __init__(self, body: pa.Buffer, rows: int) -> None:
        self._body = body
        self._rows = rows
        self._at = 0

    def column(self, code: int, form: pa.DataType) -> pa.Array:
        rows, kind = self._rows, _KINDS[form.id]
        there = self._take((rows + 7) // 8) if code & k.HOLES else None
        code &= ~k.HOLES
        if code == k.NULL:
            return pa.nulls(rows, form)
        if code == k.EMPTY:
            return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), _no_elements(form), type=form)
        if code == k.SAME:
            return _same(self._number(), kind, form, rows)
        if code == k.ONE:
            return self._one(kind, form)
        if kind == k.TEXT:
            return self._texts(form, rows, there)
        if kind == k.LABEL:
            return self._labels(code, there)
        if kind == k.LIST:
            ends = self._take(4 * (rows + 1))
            pairs = self._pairs(int(np.frombuffer(ends, np.int32)[rows]))
            return pa.Array.from_buffers(form, rows, [there, ends], children=[pairs])
        width = 4 * rows if kind == k.INT32 else 8 * rows if kind == k.INT64 else (rows + 7) // 8
        return pa.Array.from_buffers(form, rows, [there, self._take(width)])

    def _one(self, kind: int, form: pa.DataType) -> pa.Array:
        """What was said once, in every row again."""
        if kind == k.LIST:
            each = self._number()
            pairs = self._pairs(each).take(pa.array(np.tile(np.arange(each), self._rows)))
            ends = pa.array(np.arange(0, each * self._rows + 1, each, dtype=np.int32))
            return pa.ListArray.from_arrays(ends, pairs, type=form)
        if kind == k.LABEL:
            return constant_label(self._texts(pa.string(), 1)[0].as_py(), self._rows)
        return pa.repeat(self._texts(form, 1)[0], self._rows)

    def _labels(self, code: int, there: pa.Buffer | None) -> pa.DictionaryArray:
        names = self._texts(pa.string(), self._number())
        if code == k.FEW:
            places = pa.py_buffer(np.frombuffer(self._take(self._rows), np.uint8).astype(np.int32))
        else:
            places = self._take(4 * self._rows)
        return pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int32(), self._rows, [there, places]), names)

    def _pairs(self, rows: int) -> pa.StructArray:
        return pa.StructArray.from_arrays([self._texts(pa.string(), rows) for _ in range(2)], fields=list(USER_PROPERTY))

    def _texts(self, form: pa.DataType, rows: int, there: pa.Buffer | None = None) -> pa.Array:
        ends = self._take(4 * (rows + 1))
        data = self._take(int(np.frombuffer(ends, np.int32)[rows]))
        return pa.Array.from_buffers(form, rows, [there, ends, data])

    def _number(self) -> int:
        return int(np.frombuffer(self._take(8), np.int64)[0])

    def _take(self, size: int) -> pa.Buffer:
        part = self._body.slice(self._at, size)
        self._at += (size + 7) // 8 * 8
        return part


def _as_stream(batch: Batch) -> tuple[bytes, Body]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return _head(0, batch.num_rows, b""), sink.getvalue()


def _unsqueezed(body: memoryview) -> pa.Buffer:
    size, was = _SQUEEZED.unpack_from(body)
    return _LZ4.decompress(body[_SQUEEZED.size : _SQUEEZED.size + size], was)


def _head(number: int, rows: int, codes: bytes) -> bytes:
    size = _HEAD.size + len(codes)
    padding = -(size + CHECKSUM_BYTES) % 8
    return _HEAD.pack(size + padding, rows, number) + codes + bytes(padding)


def _same(number: int, kind: int, form: pa.DataType, rows: int) -> pa.Array:
    if kind == k.FLAG:
        return constant(bool(number), form, rows)
    numbers = pa.array(np.full(rows, number, np.int32 if kind == k.INT32 else np.int64))
    return numbers if form == numbers.type else numbers.view(form)


@lru_cache
def _kinds(number: int) -> npt.NDArray[np.int64]:
    return np.array([_KINDS[field.type.id] for field in SCHEMAS[number]], np.int64)


@lru_cache
def _no_elements(form: pa.ListType) -> pa.Array:
    return pa.array([], form.value_type)
