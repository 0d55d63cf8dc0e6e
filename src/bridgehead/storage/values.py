"""Values of the file-native engine: a batch in Arrow's stream format, and its index entry, each behind a CRC-32.

Only rows with a QoS above 0 are on the disk. The others are the holes of a batch: a bit for each row says which is which.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.errors import StorageError
from bridgehead.storage.engine import Shape

Present = npt.NDArray[np.bool_]

_CRC = struct.Struct(">I")
_RAW = b"\0"
_HEAD = struct.Struct(">IIQ")  # rows with the holes, rows on the disk, weight


def seal(body: bytes) -> bytes:
    return _CRC.pack(zlib.crc32(body)) + body


def unseal(value: bytes, what: str) -> memoryview:
    body = memoryview(value)[_CRC.size :]
    if len(value) < _CRC.size or _CRC.unpack_from(value)[0] != zlib.crc32(body):
        raise StorageError(f"{what} is damaged: its checksum does not fit")
    return body


def pack_batch(batch: Batch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return seal(sink.getvalue().to_pybytes())


def unpack_batch(value: bytes, what: str) -> Batch:
    with pa.ipc.open_stream(pa.py_buffer(unseal(value, what))) as reader:
        return reader.read_next_batch()


def pack_state(state: Any) -> bytes:
    """JSON as it is, bytes behind a byte that no JSON begins with."""
    return seal(_RAW + state if isinstance(state, bytes) else json.dumps(state).encode())


def unpack_state(value: bytes) -> Any:
    body = bytes(unseal(value, "a state"))
    return body[1:] if body.startswith(_RAW) else json.loads(body)


def pack_shape(rows: int, weight: int, present: Present | None) -> bytes:
    stored = rows if present is None else int(np.count_nonzero(present))
    bits = b"" if present is None else np.packbits(present).tobytes()
    return seal(_HEAD.pack(rows, stored, weight) + bits)


def unpack_shape(value: bytes, what: str) -> Shape:
    body = unseal(value, what)
    rows, stored, weight = _HEAD.unpack_from(body)
    if stored == rows:
        return Shape(rows, weight)
    bits = np.frombuffer(body[_HEAD.size :], np.uint8)
    return Shape(rows, weight, np.unpackbits(bits, count=rows).astype(np.bool_))


def with_holes(stored: Batch, present: Present) -> Batch:
    """The stored rows in their old places; the others have only nulls."""
    places = np.cumsum(present) - 1
    return stored.take(pa.array(places, pa.int64(), mask=~present))


@dataclass(frozen=True, slots=True)
class Loose:
    """The rows of a batch that are only in RAM; ``present`` says which of its rows are on the disk, None = no row at all."""

    batch: Batch
    present: Present | None

    def joined(self, stored: Batch) -> Batch:
        """All rows of the batch in their order."""
        assert self.present is not None
        order = np.empty(len(self.present), np.int64)
        order[np.flatnonzero(self.present)] = np.arange(stored.num_rows)
        order[np.flatnonzero(~self.present)] = np.arange(stored.num_rows, len(self.present))
        return pa.concat_batches([stored, self.batch]).take(pa.array(order))
