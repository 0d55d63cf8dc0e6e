"""Small helpers on record batches that more than one package needs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from isal.isal_zlib import crc32

from bridgehead.columns.schema import MESSAGE, STORED

Batch: TypeAlias = pa.RecordBatch


def _remembered(measure: Callable[[Batch], int]) -> Callable[[Batch], int]:
    """A batch never changes, and on its way it is asked for the same again and again: the last answer is kept."""
    last: tuple[Callable[[], Batch | None], int] = (lambda: None, 0)

    @wraps(measure)
    def answer(batch: Batch) -> int:
        nonlocal last
        asked, answered = last  # at once: others may ask in other threads
        if asked() is not batch:
            answered = measure(batch)
            last = (weakref.ref(batch), answered)
        return answered

    return answer


CONSTANT_ROWS: Final = 4096
"""Constant columns up to this long are slices of one kept array: most ticks are short."""


def constant(value: bool | int | str, kind: pa.DataType, rows: int) -> pa.Array:
    """A column that holds one value in every row."""
    if rows <= CONSTANT_ROWS:
        return _kept_constant(value, kind).slice(0, rows)
    return pa.repeat(pa.scalar(value, kind), rows)


@lru_cache(maxsize=256)
def _kept_constant(value: bool | int | str, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), CONSTANT_ROWS)


def constant_label(value: str, rows: int) -> pa.DictionaryArray:
    """A dictionary column that holds one value in every row."""
    if rows <= CONSTANT_ROWS:
        return _kept_label(value).slice(0, rows)
    return pa.DictionaryArray.from_arrays(constant(0, pa.int32(), rows), pa.array([value], pa.string()))


@lru_cache(maxsize=4096)
def _kept_label(value: str) -> pa.DictionaryArray:
    # All of them share one column of zeros: a kept label costs a few hundred bytes.
    return pa.DictionaryArray.from_arrays(_kept_constant(0, pa.int32()), pa.array([value], pa.string()))


def columns_of(batch: Batch) -> dict[str, pa.Array]:
    """The columns by their names; asking a batch for one after the other takes half as long again."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def list_bounds(array: pa.ListArray) -> tuple[int, int]:
    """Where the values of a list column begin and end: nothing between them means that every list is empty."""
    if len(array) == 0:
        return 0, 0
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return int(offsets[array.offset]), int(offsets[array.offset + len(array)])


def column_data(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets (rows + 1, absolute) and bytes of a string or binary column, sliced or not, without a copy."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def payload_bytes(batch: Batch) -> int:
    """What the payloads of these rows bring."""
    return _span(batch.column("payload"))


ROW_BYTES: Final = 64
"""What a row costs beyond its own bytes, in limits."""


@_remembered
def durable_rows(batch: Batch) -> int:
    """How many of these rows belong on a disk: those with a QoS above 0."""
    qos = batch.column("qos")
    if qos.null_count or not len(qos):  # rows that an earlier life has lost have none
        return int(np.count_nonzero(qos.to_numpy(zero_copy_only=False) > 0))
    return int(np.count_nonzero(np.frombuffer(qos.buffers()[1], np.int32)[qos.offset : qos.offset + len(qos)]))


@_remembered
def weight(batch: Batch) -> int:
    """Bytes a batch stands for in limits: what its messages bring plus a fixed cost a row."""
    rows: int = batch.num_rows
    if not rows:
        return 0
    total = ROW_BYTES * rows + _span(batch.column("topic")) + _span(batch.column("payload"))
    for name in ("content_type", "response_topic", "correlation_data"):
        column = batch.column(name)
        if column.null_count < rows:
            total += _span(column)
    lists = batch.column("user_properties")
    first, last = list_bounds(lists)
    if first < last:
        pairs = lists.values
        total += sum(_span(pairs.field(part), first, last) for part in (0, 1))
    return total


def _span(array: pa.Array, first: int = 0, last: int | None = None) -> int:
    """The bytes of rows [first, last) of a string or binary column."""
    ends = np.frombuffer(array.buffers()[1], np.int32)
    return int(ends[array.offset + (len(array) if last is None else last)] - ends[array.offset + first])


def row_ends(batch: Batch) -> npt.NDArray[np.int64]:
    """How many bytes the leading 0, 1, 2 ... rows bring: topics, payloads, properties."""
    total = np.zeros(batch.num_rows + 1, np.int64)
    if batch.num_rows:
        for ends in _text_ends(batch):
            total += ends - ends[0]
    return total


def row_weights(batch: Batch) -> npt.NDArray[np.int64]:
    """What the leading 0, 1, 2 ... rows weigh."""
    rows = batch.num_rows + 1
    return row_ends(batch) + np.arange(0, ROW_BYTES * rows, ROW_BYTES)


def _text_ends(batch: Batch) -> Iterator[npt.NDArray[np.int32]]:
    """The offsets by row (rows + 1) of every column that holds text or bytes; columns without any are left out."""
    for name in ("topic", "payload"):
        yield column_data(batch.column(name))[0]
    for name in ("content_type", "response_topic", "correlation_data"):
        column = batch.column(name)
        if column.null_count < len(column):
            yield column_data(column)[0]
    lists = batch.column("user_properties")
    first, last = list_bounds(lists)
    if first < last:
        offsets = np.frombuffer(lists.buffers()[1], np.int32)[lists.offset : lists.offset + len(lists) + 1]
        for part in (0, 1):
            yield column_data(lists.values.field(part))[0][offsets]


def checksum(batches: Sequence[Batch], routes: Sequence[str] = ()) -> int:
    """CRC-32 over the routes, topics and payloads of a part: what was staged is what the task made."""
    crc = crc32("\0".join(routes).encode())
    for batch in batches:
        for name in ("topic", "payload"):
            ends, data = column_data(batch.column(name))
            if len(batch):
                lengths = np.diff(ends)
                crc = crc32(np.ascontiguousarray(lengths).data, crc)
                crc = crc32(data[ends[0] : ends[-1]].data, crc)
    return crc


def received_us(batch: Batch, row: int) -> int | None:
    """When a row arrived, in microseconds since the epoch."""
    found = batch.column("received_at")[row]
    return int(found.value) if found.is_valid else None


def newest_us(batch: Batch) -> int:
    """When the last of these rows arrived; rows that a restart has left out do not count."""
    return int(pc.max(batch.column("received_at")).value or 0)


def oldest_us(batch: Batch) -> int:
    return int(pc.min(batch.column("received_at")).value or 0)


def first_since(batch: Batch, time_us: int) -> int:
    """The first row that arrived then or later; the number of rows if there is none."""
    found = pc.index(pc.fill_null(pc.greater_equal(batch.column("received_at").cast(pa.int64()), time_us), False), True).as_py()
    return batch.num_rows if found < 0 else int(found)


def concat(batches: list[Batch]) -> Batch:
    """Several batches of one schema as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def rows_of(batch: Batch, first: int, count: int) -> Batch:
    """Rows [first, first + count); the whole batch is handed through, because a slice of it costs as much as a small one."""
    return batch if first == 0 and count == batch.num_rows else batch.slice(first, count)


def message_rows(stored: Batch, first_offset: int, partition: int, node: str, bridges: Mapping[str, str]) -> Batch:
    """STORED rows as the message table; ``bridges`` names the bridge of each route."""
    rows = stored.num_rows
    columns = {name: stored.column(name) for name in STORED.names}
    routes = columns["route"]
    owners = pa.array([bridges.get(route, "") for route in routes.dictionary.to_pylist()], pa.string())
    columns["bridge"] = pa.DictionaryArray.from_arrays(routes.indices, owners).dictionary_decode()
    columns["route"] = routes.dictionary_decode()
    columns["client_id"] = columns["client_id"].dictionary_decode()
    columns["node"] = constant(node, pa.string(), rows)
    columns["journal_partition"] = constant(partition, pa.int32(), rows)
    columns["journal_offset"] = pa.array(np.arange(first_offset, first_offset + rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGE.names], schema=MESSAGE)
