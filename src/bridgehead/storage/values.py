"""Values of the file-native engine: a batch (see ``lean``), its index entry, notes and states, each behind a CRC-32.

The checksum covers the format, the key and the value: a value that fits is ours, of this format, and under the key it was
written to. So whatever a damaged store still gives out can be judged by itself.

Only rows with a QoS above 0 are on the disk. The others are the holes of a batch: a bit for each row says which is which. The
batch says it too, at its end: an index entry that is lost is made anew from its batch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal.isal_zlib import crc32

from bridgehead.columns.batches import Batch, weight
from bridgehead.errors import DamageError
from bridgehead.storage import lean
from bridgehead.storage.engine import Shape
from bridgehead.storage.records import Packed

Present = npt.NDArray[np.bool_]

FORMAT: Final = 6
"""The version of keys and values; a directory with another one is refused."""

_CRC = struct.Struct(">I")
_RAW = b"\0"
_HEAD = struct.Struct(">IIQ")  # rows with the holes, rows on the disk, weight
_ROWS = struct.Struct(">I")  # behind a batch and the bits of its holes: rows with the holes


def seal(key: bytes, body: bytes) -> bytes:
    return _CRC.pack(crc32(body, crc32(key, FORMAT))) + body


def unseal(key: bytes, value: bytes, what: str) -> memoryview:
    body = memoryview(value)[_CRC.size :]
    if len(value) < _CRC.size or _CRC.unpack_from(value)[0] != crc32(body, crc32(key, FORMAT)):
        raise DamageError(f"{what} is damaged: its checksum does not fit")
    return body


def is_sound(key: bytes, value: bytes) -> bool:
    """Whether this is what was written under this key."""
    return len(value) >= _CRC.size and _CRC.unpack_from(value)[0] == crc32(
        memoryview(value)[_CRC.size :], crc32(key, FORMAT)
    )


def pack_batch(key: bytes, stored: Batch, present: Present | None, room: lean.Room = lean.fresh) -> Packed:
    """``present`` says which rows of the whole batch the stored ones are; None = all. ``room`` is where to pack."""
    bits = b"" if present is None else np.packbits(present).tobytes()
    rows = stored.num_rows if present is None else len(present)
    return _sealed(key, *lean.pack(stored, room), bits + _ROWS.pack(rows))


def squeezed(key: bytes, value: bytes, sizes: Sequence[int]) -> bytes:
    """The same batch in fewer bytes, where that is worth it: for one that stays. ``sizes`` are those of its parts."""
    unseal(key, value, "a batch that stays")
    _, head, body, end = (memoryview(value)[stop - size : stop] for size, stop in zip(sizes, accumulate(sizes), strict=True))
    return b"".join(_sealed(key, *lean.squeezed(bytes(head), body), bytes(end)))


def _sealed(key: bytes, head: bytes, body: lean.Body, end: bytes) -> Packed:
    return _CRC.pack(crc32(end, crc32(body, crc32(key + head, FORMAT)))), head, body, end


def unpack_batch(key: bytes, value: bytes, what: str) -> Batch:
    return lean.unpack(unseal(key, value, what))


def shape_of_batch(key: bytes, value: bytes) -> Shape:
    """What the index entry of this batch says, or would say if it were there."""
    body = unseal(key, value, "the batch")
    stored = unpack_batch(key, value, "the batch")
    (rows,) = _ROWS.unpack_from(body, len(body) - _ROWS.size)
    if rows == stored.num_rows:
        return Shape(rows, weight(stored))
    bits = np.frombuffer(body[len(body) - _ROWS.size - (rows + 7) // 8 : len(body) - _ROWS.size], np.uint8)
    return Shape(rows, weight(stored), np.unpackbits(bits, count=rows).astype(np.bool_))


def pack_state(key: bytes, state: Any) -> bytes:
    """JSON as it is, bytes behind a byte that no JSON begins with."""
    return seal(key, _RAW + state if isinstance(state, bytes) else json.dumps(state).encode())


def unpack_state(key: bytes, value: bytes) -> Any:
    body = bytes(unseal(key, value, "a state"))
    return body[1:] if body.startswith(_RAW) else json.loads(body)


def pack_shape(key: bytes, shape: Shape) -> bytes:
    stored = shape.rows if shape.present is None else int(np.count_nonzero(shape.present))
    bits = b"" if shape.present is None else np.packbits(shape.present).tobytes()
    return seal(key, _HEAD.pack(shape.rows, stored, shape.weight) + bits)


def unpack_shape(key: bytes, value: bytes, what: str) -> Shape:
    body = unseal(key, value, what)
    rows, stored, size = _HEAD.unpack_from(body)
    if stored == rows:
        return Shape(rows, size)
    bits = np.frombuffer(body[_HEAD.size :], np.uint8)
    return Shape(rows, size, np.unpackbits(bits, count=rows).astype(np.bool_))


def pack_note(key: bytes, note: int) -> bytes:
    return seal(key, note.to_bytes(8, "big"))


def unpack_note(key: bytes, value: bytes) -> int:
    return int.from_bytes(unseal(key, value, "a note"), "big")


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
