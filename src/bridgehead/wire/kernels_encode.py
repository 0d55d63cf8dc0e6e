"""From Arrow columns to PUBLISH frames, in two passes: one measures every frame, one writes them.

The columns come as a table of addresses, one line per column (see `kernels_jit`):

    VALIDITY   address of the validity bitmap, 0 if no value is null
    FIRST_BIT  where the column starts in its bitmaps (a slice starts anywhere)
    VALUES     address of the column's first value or offset (the slice's start counted in), 0 if the column is absent
    DATA       address of the bytes that the offsets point into

`bridgehead.wire.frames` is the door; `bridgehead.wire.plain_publish` says the same slowly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import copy_bytes, kernel, peek_i32, peek_i64, peek_u8

TOPIC, PAYLOAD, RETAIN, EXPIRY, FORMAT, CONTENT, RESPONSE, CORRELATION, USERS, USER_KEY, USER_VALUE = range(11)
TABLE_HEIGHT = 11
VALIDITY, FIRST_BIT, VALUES, DATA = range(4)

UNSENDABLE = 1 << 62
"""The size of a frame that MQTT cannot express: above every limit there is."""

_LONGEST_TEXT = 0xFFFF
_LONGEST_BODY = 268_435_455
_LARGEST_EXPIRY = 0xFFFFFFFF


@kernel
def _is_set(bitmap: int, bit: int) -> bool:
    return bool((peek_u8(bitmap + (bit >> 3)) >> (bit & 7)) & 1)


@kernel
def _present(table: NDArray[np.int64], column: int, i: int) -> bool:
    if table[column, VALUES] == 0:
        return False
    return table[column, VALIDITY] == 0 or _is_set(table[column, VALIDITY], table[column, FIRST_BIT] + i)


@kernel
def _offset(table: NDArray[np.int64], column: int, i: int) -> int:
    return int(peek_i32(table[column, VALUES] + 4 * i))


@kernel
def _length(table: NDArray[np.int64], column: int, i: int) -> int:
    return _offset(table, column, i + 1) - _offset(table, column, i)


@kernel
def _expiry(table: NDArray[np.int64], expiry: NDArray[np.int64], i: int, j: int) -> int:
    """The expiry of row i, the j-th to be written: seconds, or negative for none."""
    seconds = np.int64(-1)
    if len(expiry):
        seconds = expiry[j]
    elif _present(table, EXPIRY, i):
        seconds = np.int64(peek_i64(table[EXPIRY, VALUES] + 8 * i))
    return _LARGEST_EXPIRY if seconds > _LARGEST_EXPIRY else int(seconds)


@kernel
def _varint_width(value: int) -> int:
    if value < 0x80:
        return 1
    if value < 0x4000:
        return 2
    return 3 if value < 0x200000 else 4


@kernel
def measure_frames(
    table: NDArray[np.int64],
    version: int,
    flags: NDArray[np.uint8],
    picks: NDArray[np.int64],
    expiry: NDArray[np.int64],
    constant: NDArray[np.uint8],
    props: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> int:
    """First pass: the length of every frame and of its properties; gives the sum, or -1 if one is unsendable."""
    total = 0
    for j in range(len(sizes)):
        i = picks[j] if len(picks) else j
        topic = _length(table, TOPIC, i)
        longest = topic
        body = 2 + topic + _length(table, PAYLOAD, i)
        if flags[j] & 3:
            body += 2
        if version >= 5:
            size = len(constant)
            if _expiry(table, expiry, i, j) >= 0:
                size += 5
            if _present(table, FORMAT, i):
                size += 2
            for column in (CONTENT, RESPONSE, CORRELATION):
                if _present(table, column, i):
                    length = _length(table, column, i)
                    longest = max(longest, length)
                    size += 3 + length
            if _present(table, USERS, i):
                for k in range(_offset(table, USERS, i), _offset(table, USERS, i + 1)):
                    key, value = _length(table, USER_KEY, k), _length(table, USER_VALUE, k)
                    longest = max(longest, max(key, value))
                    size += 5 + key + value
            props[j] = size
            body += _varint_width(size) + size
        if topic == 0 or longest > _LONGEST_TEXT or body > _LONGEST_BODY:
            sizes[j] = UNSENDABLE
            total = -1
        else:
            sizes[j] = 1 + _varint_width(body) + body
            if total >= 0:
                total += sizes[j]
    return total


@kernel
def _put_varint(out: NDArray[np.uint8], at: int, value: int) -> int:
    while value >= 0x80:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@kernel
def _put_number(out: NDArray[np.uint8], at: int, value: int, width: int) -> int:
    for k in range(width):
        out[at + k] = (value >> (8 * (width - 1 - k))) & 0xFF
    return at + width


@kernel
def _put_bytes(out: NDArray[np.uint8], at: int, table: NDArray[np.int64], column: int, i: int) -> int:
    start, length = _offset(table, column, i), _length(table, column, i)
    copy_bytes(out.ctypes.data + at, table[column, DATA] + start, length)
    return at + length


@kernel
def _put_text(out: NDArray[np.uint8], at: int, table: NDArray[np.int64], column: int, i: int) -> int:
    return _put_bytes(out, _put_number(out, at, _length(table, column, i), 2), table, column, i)


@kernel
def write_frames(
    table: NDArray[np.int64],
    version: int,
    retain: int,
    flags: NDArray[np.uint8],
    ids: NDArray[np.uint16],
    picks: NDArray[np.int64],
    expiry: NDArray[np.int64],
    constant: NDArray[np.uint8],
    props: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Second pass: write the frames; `sizes` becomes their ends. `retain` 0 or 1 overrules the column, -1 asks it."""
    at = 0
    for j in range(len(sizes)):
        i = picks[j] if len(picks) else j
        kept = retain
        if retain < 0:
            kept = 1 if _is_set(table[RETAIN, VALUES], table[RETAIN, FIRST_BIT] + i) else 0
        qos = flags[j] & 3
        out[at] = 0x30 | (flags[j] & 8) | qos << 1 | kept
        # The length of the body is what the frame has behind the length itself: 1 to 4 bytes, the width that fits.
        width = _varint_width(sizes[j] - 2)
        if _varint_width(sizes[j] - 1 - width) != width:
            width -= 1
        at = _put_varint(out, at + 1, sizes[j] - 1 - width)
        at = _put_text(out, at, table, TOPIC, i)
        if qos:
            at = _put_number(out, at, ids[j], 2)
        if version >= 5:
            at = _put_varint(out, at, props[j])
            if _present(table, FORMAT, i):
                out[at] = 0x01
                out[at + 1] = peek_i32(table[FORMAT, VALUES] + 4 * i)
                at += 2
            seconds = _expiry(table, expiry, i, j)
            if seconds >= 0:
                out[at] = 0x02
                at = _put_number(out, at + 1, seconds, 4)
            for column in (CONTENT, RESPONSE, CORRELATION):
                if _present(table, column, i):
                    out[at] = 0x03 if column == CONTENT else (0x08 if column == RESPONSE else 0x09)
                    at = _put_text(out, at + 1, table, column, i)
            for k in range(len(constant)):
                out[at + k] = constant[k]
            at += len(constant)
            if _present(table, USERS, i):
                for k in range(_offset(table, USERS, i), _offset(table, USERS, i + 1)):
                    out[at] = 0x26
                    at = _put_text(out, at + 1, table, USER_KEY, k)
                    at = _put_text(out, at, table, USER_VALUE, k)
        at = _put_bytes(out, at, table, PAYLOAD, i)
        sizes[j] = at
