"""Batches in few bytes: what a column says in all its rows is said once, and not in every row.

Most columns of most batches do: no property, one QoS, one time of arrival, a handful of topics. Whatever is written is copied,
checked and synced byte by byte, so these columns would be a third of what a durable message costs. A batch of a schema known
here becomes a head (schema, rows, a code for each column, what the codes say) and, at a multiple of 8, the other columns as
Arrow's record batch. Any other batch is Arrow's stream, which describes itself. What stays is squeezed if LZ4 makes it clearly
smaller: what devices say is mostly text that repeats itself, and trying costs next to nothing where it does not.
"""

from __future__ import annotations

import struct
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from bridgehead.columns.batches import Batch, constant, list_bounds
from bridgehead.columns.schema import DEAD, LABEL, OUTBOX, STORED, TIMESTAMP, USER_PROPERTIES

SCHEMAS: Final = {1: STORED, 2: OUTBOX, 3: DEAD}
"""By their number on the disk, which never changes; 0 is Arrow's stream."""

_HEAD = struct.Struct("<IIB")  # bytes of the whole head, rows, schema; a code for each column and what the codes say follow
_SQUEEZED = struct.Struct("<II")  # before a squeezed body: its bytes squeezed, and as they were
_NUMBER = struct.Struct("<q")
_LENGTH = struct.Struct("<I")

_FEW: Final = 256
"""Distinct texts that are worth a list of their own: an index takes one byte."""

SQUEEZED: Final = 0x80
"""Beside the number of the schema: the body is squeezed."""

_WORTH_TRYING: Final = 1024
"""Bytes of a body below which there is little to gain."""

_WORTH_KEEPING: Final = 0.9
"""Of the bytes of a body, at most: otherwise whoever reads it would unsqueeze for nothing."""

_LZ4: Final = pa.Codec("lz4_raw")

CHECKSUM_BYTES: Final = 4
"""What stands before a packed batch where it is kept."""

class _Kind(Enum):
    """What a column holds, as far as it matters here; that of numbers is their form."""

    INT32 = np.int32
    INT64 = np.int64
    FLAG = "flag"
    BYTES = "bytes"
    LABEL = "label"
    LIST = "list"


class Code(IntEnum):
    """How a column is written."""

    PLAIN = 0  # in the record batch
    NULL = 1  # null in every row
    SAME = 2  # a number, the same in every row
    EMPTY = 3  # a list without elements in every row
    FEW = 4  # a list of texts, and in the record batch one byte a row that says which


_KINDS: Final = {
    pa.int32().id: _Kind.INT32,
    pa.int64().id: _Kind.INT64,
    TIMESTAMP.id: _Kind.INT64,
    pa.bool_().id: _Kind.FLAG,
    pa.string().id: _Kind.BYTES,
    LABEL.id: _Kind.LABEL,
    pa.binary().id: _Kind.BYTES,
    USER_PROPERTIES.id: _Kind.LIST,
}
_BY_COLUMNS: Final = {len(schema): number for number, schema in SCHEMAS.items()}


def pack(batch: Batch) -> tuple[bytes, pa.Buffer]:
    """Head and body: whoever joins them copies them anyway."""
    number = _BY_COLUMNS.get(batch.num_columns, 0)
    if not number or not batch.num_rows or not batch.schema.equals(SCHEMAS[number]):
        return _as_stream(batch)
    codes, said = bytearray(), bytearray()
    plain: list[pa.Array] = []
    for column, (kind, _) in zip(batch.columns, _forms(number), strict=True):
        codes.append(_write(column, kind, said, plain))
    body = pa.RecordBatch.from_arrays(plain, schema=_plain_schema(number, bytes(codes))).serialize()
    return _head(number, batch.num_rows, bytes(codes + said)), body


def squeezed(head: bytes, body: pa.Buffer) -> tuple[bytes, pa.Buffer]:
    """The same with a squeezed body, if that is worth it."""
    if body.size >= _WORTH_TRYING:
        small = _LZ4.compress(body)
        if small.size < body.size * _WORTH_KEEPING:
            size, rows, number = _HEAD.unpack_from(head)
            told = _HEAD.pack(size, rows, number | SQUEEZED) + head[_HEAD.size :]
            return told + _SQUEEZED.pack(small.size, body.size), small
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
    forms = _forms(number)
    at = _HEAD.size + len(forms)
    codes = bytes(body[_HEAD.size : at])
    plain = iter(pa.ipc.read_record_batch(columns_at, _plain_schema(number, codes)).columns)
    columns = []
    for code, (kind, form) in zip(codes, forms, strict=True):
        if code == Code.NULL:
            column = pa.nulls(rows, form)
        elif code == Code.EMPTY:
            column = pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), _no_elements(form), type=form)
        elif code == Code.SAME:
            column = _same(_NUMBER.unpack_from(body, at)[0], kind, form, rows)
            at += _NUMBER.size
        elif code == Code.FEW:
            texts, at = _read_texts(body, at)
            column = pa.DictionaryArray.from_arrays(next(plain).cast(pa.int32()), texts)
        else:
            column = next(plain)
            if kind is _Kind.LABEL:
                column = column.dictionary_encode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[number])


def _as_stream(batch: Batch) -> tuple[bytes, pa.Buffer]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return _head(0, batch.num_rows, b""), sink.getvalue()


def _unsqueezed(body: memoryview) -> pa.Buffer:
    size, was = _SQUEEZED.unpack_from(body)
    return _LZ4.decompress(body[_SQUEEZED.size : _SQUEEZED.size + size], was)


def _head(number: int, rows: int, said: bytes) -> bytes:
    size = _HEAD.size + len(said)
    padding = -(size + CHECKSUM_BYTES) % 8
    return _HEAD.pack(size + padding, rows, number) + said + bytes(padding)


def _write(column: pa.Array, kind: _Kind, said: bytearray, plain: list[pa.Array]) -> Code:
    """Add a column to what is said in the head, or to the record batch."""
    rows = len(column)
    nulls = column.null_count
    if nulls == rows:
        return Code.NULL
    if kind is _Kind.LIST:
        first, last = list_bounds(column)
        if first == last and not nulls:
            return Code.EMPTY
    elif kind is _Kind.LABEL:
        if len(column.dictionary) <= _FEW:
            _say_texts(column.dictionary, said)
            plain.append(_narrow(column.indices))
            return Code.FEW
        column = column.dictionary_decode()
    elif kind is not _Kind.BYTES and not nulls and (number := _one_number(column, kind)) is not None:
        said += _NUMBER.pack(number)
        return Code.SAME
    plain.append(column)
    return Code.PLAIN


def _one_number(column: pa.Array, kind: _Kind) -> int | None:
    """What all rows say, if they do."""
    if kind is _Kind.FLAG:
        trues = column.true_count
        return int(trues > 0) if trues in (0, len(column)) else None
    numbers = np.frombuffer(column.buffers()[1], kind.value)[column.offset : column.offset + len(column)]
    return int(numbers[0]) if (numbers == numbers[0]).all() else None


def _same(number: int, kind: _Kind, form: pa.DataType, rows: int) -> pa.Array:
    if kind is _Kind.FLAG:
        return constant(bool(number), form, rows)
    numbers = pa.array(np.full(rows, number, kind.value))
    return numbers if form == numbers.type else numbers.view(form)


def _narrow(indices: pa.Array) -> pa.Array:
    """The same in one byte a row."""
    if indices.null_count:
        return indices.cast(pa.uint8())
    return pa.array(indices.to_numpy().astype(np.uint8))


def _say_texts(texts: pa.StringArray, said: bytearray) -> None:
    said += _LENGTH.pack(len(texts))
    for text in texts.to_pylist():
        raw = text.encode()
        said += _LENGTH.pack(len(raw))
        said += raw


def _read_texts(body: memoryview, at: int) -> tuple[pa.StringArray, int]:
    (count,) = _LENGTH.unpack_from(body, at)
    at += _LENGTH.size
    texts = []
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        texts.append(str(body[at : at + size], "utf-8"))
        at += size
    return pa.array(texts, pa.string()), at


@lru_cache
def _forms(number: int) -> tuple[tuple[_Kind, pa.DataType], ...]:
    return tuple((_KINDS[field.type.id], field.type) for field in SCHEMAS[number])


@lru_cache
def _no_elements(form: pa.ListType) -> pa.Array:
    return pa.array([], form.value_type)


@lru_cache
def _plain_schema(number: int, codes: bytes) -> pa.Schema:
    """Of the record batch behind a head."""
    kinds = {Code.PLAIN: None, Code.FEW: pa.uint8()}
    fields = [
        pa.field(field.name, kinds[Code(code)] or _unlabelled(field.type))
        for field, code in zip(SCHEMAS[number], codes, strict=True)
        if code in kinds
    ]
    return pa.schema(fields)


def _unlabelled(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == LABEL else kind
