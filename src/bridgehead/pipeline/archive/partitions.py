"""Which directory a row belongs to. Decided once for each distinct value, not for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import Batch
from bridgehead.pipeline.archive.layout import segment, topic_level
from bridgehead.pipeline.archive.spec import ArchiveSpec

_DAY_US: Final = 86_400_000_000


def partitioned(batch: Batch, spec: ArchiveSpec, now_us: int) -> Iterator[tuple[str, Batch]]:
    """The rows of each directory, in their order. What the directory says is not in its files, as Hive has it.

    Where the transform returns a column of that name it decides. Else the topic, the route and ``received_at`` do; a row
    without that (an aggregate, say) belongs to the day on which it is written.
    """
    kept = batch.select([name for name in batch.schema.names if name not in spec.partition_by])
    if not spec.partition_by:
        yield "", kept
        return
    segments = [_segments(column, _values(batch, column, spec, now_us)) for column in spec.partition_by]
    directories = pc.binary_join_element_wise(*segments, "/").dictionary_encode()
    names = directories.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], kept
        return
    which = directories.indices.to_numpy()
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(names) + 1))
    for index, name in enumerate(names):
        yield name, kept.take(pa.array(order[bounds[index] : bounds[index + 1]]))


def with_partition_columns(batch: Batch, spec: ArchiveSpec, now_us: int) -> Batch:
    """The rows with what they are partitioned by as columns: for formats whose writer makes the directories itself."""
    for column in spec.partition_by:
        if column not in batch.schema.names:
            values = _values(batch, column, spec, now_us)
            batch = batch.append_column(column, values.dictionary_decode() if _is_encoded(values) else values)
    return batch


def _segments(column: str, values: pa.Array) -> pa.Array:
    """``column=value`` for each row."""
    return _mapped(values, lambda value: segment(column, value))


def _values(batch: Batch, column: str, spec: ArchiveSpec, now_us: int) -> pa.Array:
    """What each row is partitioned by."""
    if column in batch.schema.names:
        return batch.column(column)
    level = topic_level(column)
    if level is not None:
        return _mapped(batch.column("topic"), lambda topic: _level(topic, level))
    if column == "date":
        return _days(batch, now_us)
    return pa.repeat(spec.bridge if column == "bridge" else spec.route, batch.num_rows)


def _level(topic: str | None, level: int) -> str | None:
    """An empty level is none, as Hive has it."""
    levels = topic.split("/") if topic else []
    return levels[level - 1] or None if level <= len(levels) else None


def _days(batch: Batch, now_us: int) -> pa.Array:
    """The day of each row in UTC."""
    now = pa.scalar(now_us, pa.int64())
    moments = pa.repeat(now, batch.num_rows)
    if "received_at" in batch.schema.names:
        column = batch.column("received_at")
        if pa.types.is_timestamp(column.type):
            # As a number: a zone that Spark gave the column must not move rows to another day.
            moments = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).fill_null(now)
    days = np.floor_divide(moments.to_numpy(zero_copy_only=False), _DAY_US).astype(np.int32)
    return pa.array(days).cast(pa.date32()).dictionary_encode()


def _is_encoded(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _mapped(column: pa.Array, text_of: Callable[[str | None], str | None]) -> pa.Array:
    """The same column with each distinct value as a text."""
    encoded = column if _is_encoded(column) else column.dictionary_encode()
    values = encoded.dictionary.cast(pa.string()).cast(pa.binary()).to_pylist()
    decoded = [value.decode(errors="replace") for value in values]  # Spark's strings may be any bytes
    texts = pa.array([*map(text_of, decoded), text_of(None)], pa.string())
    indices = encoded.indices.fill_null(len(values)) if encoded.null_count else encoded.indices
    return texts.take(indices)
