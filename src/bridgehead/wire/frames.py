"""Frames: the PUBLISH packets of a whole batch, and acknowledgements in runs, as bytes ready for a socket.

In: an Arrow RecordBatch with the columns of `bridgehead.columns.schema.WIRE` (more are ignored, those that are missing
or null all over count as absent; slices are fine). Out: one run of bytes and where each frame ends in it.
Promised: the frames follow the order of the rows; MQTT 3.1.1 leaves the properties out.
Refused with ValueError: a batch with a row that MQTT cannot express (no topic, a text above 65,535 bytes, a packet
above 256 MiB). `frame_sizes` finds such rows, and those above a peer's maximum packet size, beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridgehead.columns.schema import USER_PROPERTIES
from bridgehead.wire import kernels_encode as k
from bridgehead.wire.arrays import prepared
from bridgehead.wire.kernels_encode import UNSENDABLE

__all__ = ["UNSENDABLE", "Frames", "encode_acks", "encode_publishes", "frame_sizes"]

PUBREL = 6

_BODY = (("topic", k.TOPIC, pa.string()), ("payload", k.PAYLOAD, pa.binary()), ("retain", k.RETAIN, pa.bool_()))
_PROPERTIES = (
    ("message_expiry", k.EXPIRY, pa.int64()),
    ("payload_format", k.FORMAT, pa.int32()),
    ("content_type", k.CONTENT, pa.string()),
    ("response_topic", k.RESPONSE, pa.string()),
    ("correlation_data", k.CORRELATION, pa.binary()),
    ("user_properties", k.USERS, USER_PROPERTIES),
)
_WIDTH = {k.EXPIRY: 8, k.RETAIN: 0}  # bytes per value; all others have 4, bitmaps have no byte of their own
_NO_ROWS = np.empty(0, np.int64)
_NO_BYTES = np.empty(0, np.uint8)


class Frames(NamedTuple):
    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    """Where each frame ends in `data`: says which frames a partial write has covered."""


def frame_sizes(
    batch: Any,
    version: int,
    qos: NDArray[np.uint8],
    *,
    rows: NDArray[np.int64] | None = None,
    expiry: NDArray[np.int64] | None = None,
    subscription_ids: Sequence[int] = (),
) -> NDArray[np.int64]:
    """The length of each frame that `encode_publishes` would write; UNSENDABLE where it would refuse."""
    columns = _Columns(batch, version)
    _, sizes, _ = _measure(columns, version, prepared(qos, np.uint8), rows, expiry, _constant(subscription_ids))
    return sizes


def encode_publishes(
    batch: Any,
    version: int,
    qos: NDArray[np.uint8],
    packet_ids: NDArray[np.uint16],
    dup: bool | NDArray[np.uint8] = False,
    *,
    rows: NDArray[np.int64] | None = None,
    retain: bool | None = None,
    expiry: NDArray[np.int64] | None = None,
    subscription_ids: Sequence[int] = (),
) -> Frames:
    """The PUBLISH frame of every row of `batch`, or of those picked by `rows`, in that order.

    `qos`, `packet_ids`, `dup` and `expiry` go by frame, not by row of the batch. `expiry` (seconds, negative for none)
    and `retain` overrule the column; `subscription_ids` join every frame.
    """
    columns = _Columns(batch, version)
    flags = prepared(qos, np.uint8)
    if not isinstance(dup, bool):
        flags = flags | (dup.astype(np.uint8) << 3)
    elif dup:
        flags = flags | np.uint8(8)
    constant = _constant(subscription_ids)
    total, sizes, props = _measure(columns, version, flags, rows, expiry, constant)
    if len(packet_ids) != len(sizes):
        raise ValueError(f"{len(packet_ids)} packet ids for {len(sizes)} frames")
    if total < 0:
        raise ValueError(f"row {int(np.argmax(sizes))} cannot be a PUBLISH packet")
    data = np.empty(total, np.uint8)
    kept = -1 if retain is None else int(retain)
    k.write_frames(
        columns.table, version, kept, flags, prepared(packet_ids, np.uint16), _optional(rows), _optional(expiry),
        constant, props, sizes, data,
    )  # fmt: skip
    return Frames(data, sizes)


def encode_acks(kind: int, ids: NDArray[np.uint16]) -> bytes:
    """A run of PUBACK (4), PUBREC (5), PUBREL (6) or PUBCOMP (7) packets that report success."""
    packets = np.empty((len(ids), 4), np.uint8)
    packets[:, 0] = kind << 4 | (2 if kind == PUBREL else 0)
    packets[:, 1] = 2
    packets[:, 2] = ids >> 8
    packets[:, 3] = ids & 0xFF
    return packets.tobytes()


class _Columns:
    """The addresses of a batch's columns, and the arrays that keep them valid."""

    def __init__(self, batch: Any, version: int) -> None:
        self.rows: int = batch.num_rows
        self.table = np.zeros((k.TABLE_HEIGHT, 4), np.int64)
        self._held: list[Any] = []
        if self.rows == 0:
            return
        for name, column, kind in _BODY:
            array = batch.column(name)
            if array.null_count and column == k.TOPIC:
                raise ValueError("a message without a topic cannot be a PUBLISH packet")
            if array.type != kind:
                array = array.cast(kind)
            if array.null_count:
                array = array.fill_null(b"" if column == k.PAYLOAD else False)
            self._locate(array, column)
        for name, column, kind in _PROPERTIES if version >= 5 else ():
            index = batch.schema.get_field_index(name)
            if index < 0:
                continue
            array = batch.column(index)
            if array.null_count == self.rows:
                continue
            if array.type != kind:
                array = array.cast(kind)
            if column == k.USERS:
                self._locate_users(array)
            else:
                self._locate(array, column)

    def _locate(self, array: Any, column: int) -> None:
        validity, values, *data = buffers = array.buffers()
        offset = array.offset
        line = self.table[column]
        if validity is not None and array.null_count:
            line[k.VALIDITY] = validity.address
        line[k.FIRST_BIT] = offset
        line[k.VALUES] = values.address + _WIDTH.get(column, 4) * offset
        if data and data[0] is not None:
            line[k.DATA] = data[0].address
        self._held.append((array, buffers))

    def _locate_users(self, array: Any) -> None:
        pairs = array.values
        if len(pairs) == 0:
            return
        keys, values = pairs.field(0), pairs.field(1)
        if pairs.null_count or keys.null_count or values.null_count:
            array = _without_null_pairs(array)
            pairs = array.values
            if len(pairs) == 0:
                return
            keys, values = pairs.field(0), pairs.field(1)
        self._locate(keys, k.USER_KEY)
        self._locate(values, k.USER_VALUE)
        validity, offsets = buffers = array.buffers()[:2]
        line = self.table[k.USERS]
        line[k.VALIDITY] = validity.address if validity is not None and array.null_count else 0
        line[k.FIRST_BIT] = array.offset
        line[k.VALUES] = offsets.address + 4 * array.offset
        self._held.append((array, buffers))


def _without_null_pairs(array: Any) -> Any:
    """What only a careless transform makes: a pair or a key that is null goes, a value that is null becomes empty."""
    rows = [
        [{"key": pair["key"], "value": pair["value"] or ""} for pair in row or () if pair and pair["key"] is not None]
        for row in array.to_pylist()
    ]
    return pa.array(rows, USER_PROPERTIES)


def _measure(
    columns: _Columns,
    version: int,
    flags: NDArray[np.uint8],
    rows: NDArray[np.int64] | None,
    expiry: NDArray[np.int64] | None,
    constant: NDArray[np.uint8],
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    picks = _optional(rows)
    count = columns.rows if rows is None else len(picks)
    if len(flags) != count or (expiry is not None and len(expiry) != count):
        raise ValueError(f"qos or expiry do not fit {count} frames")
    sizes, props = np.empty(count, np.int64), np.empty(count, np.int64)
    total = k.measure_frames(columns.table, version, flags, picks, _optional(expiry), constant, props, sizes)
    return total, sizes, props


def _constant(subscription_ids: Sequence[int]) -> NDArray[np.uint8]:
    """The subscription identifiers as they stand in the properties of every frame."""
    if not subscription_ids:
        return _NO_BYTES
    out = bytearray()
    for value in subscription_ids:
        out.append(0x0B)
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return np.frombuffer(out, np.uint8)


def _optional(array: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return _NO_ROWS if array is None else prepared(array, np.int64)
