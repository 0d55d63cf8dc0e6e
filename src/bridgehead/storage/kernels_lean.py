"""A batch in few bytes, by two passes of compiled code: how each column is best written, then writing it. See ``lean``.

The batch comes as Arrow's C data interface describes it: to ask for twelve columns and their buffers one by one takes longer
than all that is done with them here. Every part of what is written begins at a multiple of 8, with zeros behind it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import copy_bytes, kernel, peek_i32, peek_i64, peek_u8

# What a column holds, as far as it matters here.
INT32, INT64, FLAG, TEXT, LABEL, LIST = range(6)

# How it is written (FEW: labels, in one byte a row); beside one of them, HOLES: some rows are null, and a bit for each row says
# which are not.
PLAIN, NULL, SAME, EMPTY, FEW, ONE = range(6)
HOLES = 0x10

MOST_FEW = 256   # distinct labels of which one byte says which

# Places in Arrow's description of an array, in numbers of 8 bytes.
_ROWS, _NULLS, _OFFSET, _BUFFERS, _CHILDREN, _DICTIONARY = 0, 1, 2, 5, 6, 7
_CANNOT = -1


@kernel
def measure(batch: int, kinds: NDArray[np.int64], codes: NDArray[np.uint8]) -> int:
    """Choose how each column is written; the bytes of all of them, or -1 if there is something that cannot be said here."""
    rows = peek_i64(batch + 8 * _ROWS)
    size = 0
    for at in range(len(kinds)):
        column = _child(batch, at)
        code = _code(column, kinds[at], rows)
        if code == _CANNOT:
            return _CANNOT
        codes[at] = code
        size += _size(column, kinds[at], code, rows)
    return size


@kernel
def write(batch: int, kinds: NDArray[np.int64], codes: NDArray[np.uint8], out: NDArray[np.uint8]) -> int:
    """Write the columns as ``codes`` say, one behind the other; the bytes written."""
    rows = peek_i64(batch + 8 * _ROWS)
    at = 0
    for column in range(len(kinds)):
        at = _put(_child(batch, column), kinds[column], codes[column], rows, out, at)
    return at


# -- choosing ---------------------------------------------------------------------------------------------------------


@kernel
def _code(column: int, kind: int, rows: int) -> int:
    nulls = _nulls(column)
    if nulls == rows:
        return NULL
    holes = HOLES if nulls else 0
    if kind in (INT32, INT64):
        return SAME if not nulls and _same_numbers(column, kind, rows) else PLAIN | holes
    if kind == FLAG:
        return SAME if not nulls and _same_flags(column, rows) else PLAIN | holes
    if kind == TEXT:
        return ONE if not nulls and _same_texts(_ends(column), _buffer(column, 2), 1, rows) else PLAIN | holes
    if kind == LABEL:
        names = peek_i64(column + 8 * _DICTIONARY)
        if _nulls(names):
            return _CANNOT
        few = peek_i64(names + 8 * _ROWS)
        if few == 1 and not nulls:
            return ONE
        return (FEW if few <= MOST_FEW else PLAIN) | holes
    first, last = _list_bounds(column, rows)
    if first == last:
        return PLAIN | holes if nulls else EMPTY
    pairs = _child(column, 0)
    keys, values = _child(pairs, 0), _child(pairs, 1)
    if _nulls(pairs) or _nulls(keys) or _nulls(values):
        return _CANNOT
    return ONE if not nulls and _same_lists(column, rows) else PLAIN | holes


@kernel
def _same_numbers(column: int, kind: int, rows: int) -> bool:
    width = 4 if kind == INT32 else 8
    first = _buffer(column, 1) + width * peek_i64(column + 8 * _OFFSET)
    return _same_bytes(first, first + width, width * (rows - 1))


@kernel
def _same_flags(column: int, rows: int) -> bool:
    bits, at = _buffer(column, 1), peek_i64(column + 8 * _OFFSET)
    end, first = at + rows, _bit(bits, at)
    while at < end:
        if at % 8 == 0 and at + 8 <= end:
            if peek_u8(bits + at // 8) != 255 * first:
                return False
            at += 8
        else:
            if _bit(bits, at) != first:
                return False
            at += 1
    return True


@kernel
def _same_texts(ends: int, data: int, period: int, rows: int) -> bool:
    """Whether ``period`` texts are said again and again, once a row."""
    for i in range(period, period * rows):
        if _length(ends, i) != _length(ends, i - period):
            return False
    first = data + peek_i32(ends)
    span = peek_i32(ends + 4 * period) - peek_i32(ends)
    return _same_bytes(first, first + span, span * (rows - 1))


@kernel
def _same_lists(column: int, rows: int) -> bool:
    ends = _ends(column)
    period = _length(ends, 0)
    for i in range(1, rows):
        if _length(ends, i) != period:
            return False
    for part in range(2):
        texts, data = _part(column, part)
        if not _same_texts(texts, data, period, rows):
            return False
    return True


@kernel
def _same_bytes(one: int, other: int, size: int) -> bool:
    at = 0
    while at + 8 <= size:
        if peek_i64(one + at) != peek_i64(other + at):
            return False
        at += 8
    while at < size:
        if peek_u8(one + at) != peek_u8(other + at):
            return False
        at += 1
    return True


# -- how many bytes ---------------------------------------------------------------------------------------------------


@kernel
def _size(column: int, kind: int, code: int, rows: int) -> int:
    size = _up((rows + 7) // 8) if code & HOLES else 0
    code &= ~HOLES
    if code in (NULL, EMPTY):
        return 0
    if code == SAME:
        return 8
    if code == ONE:
        return _one_size(column, kind)
    if kind in (INT32, INT64):
        return size + _up((4 if kind == INT32 else 8) * rows)
    if kind == FLAG:
        return size + _up((rows + 7) // 8)
    if kind == TEXT:
        return size + _texts_size(_ends(column), rows)
    if kind == LABEL:
        names = peek_i64(column + 8 * _DICTIONARY)
        each = 1 if code == FEW else 4
        return size + 8 + _texts_size(_ends(names), peek_i64(names + 8 * _ROWS)) + _up(each * rows)
    first, last = _list_bounds(column, rows)
    size += _up(4 * (rows + 1))
    for part in range(2):
        size += _texts_size(_part(column, part)[0], last - first) if first < last else 8
    return size


@kernel
def _one_size(column: int, kind: int) -> int:
    if kind == LIST:
        period = _length(_ends(column), 0)
        return 8 + _texts_size(_part(column, 0)[0], period) + _texts_size(_part(column, 1)[0], period)
    ends = _ends(peek_i64(column + 8 * _DICTIONARY) if kind == LABEL else column)
    return _texts_size(ends, 1)


@kernel
def _texts_size(ends: int, rows: int) -> int:
    return _up(4 * (rows + 1)) + _up(peek_i32(ends + 4 * rows) - peek_i32(ends))


# -- writing ----------------------------------------------------------------------------------------------------------


@kernel
def _put(column: int, kind: int, code: int, rows: int, out: NDArray[np.uint8], at: int) -> int:
    """Write one column; where the next one begins."""
    offset = peek_i64(column + 8 * _OFFSET)
    if code & HOLES:
        at = _put_bits(out, at, _buffer(column, 0), offset, rows)
    code &= ~HOLES
    if code in (NULL, EMPTY):
        return at
    if code == SAME:
        return _put_number(out, at, _number(column, kind))
    if code == ONE:
        return _put_one(column, kind, out, at)
    if kind in (INT32, INT64):
        width = 4 if kind == INT32 else 8
        return _put_bytes(out, at, _buffer(column, 1) + width * offset, width * rows)
    if kind == FLAG:
        return _put_bits(out, at, _buffer(column, 1), offset, rows)
    if kind == TEXT:
        return _put_texts(out, at, _ends(column), _buffer(column, 2), rows)
    if kind == LABEL:
        return _put_labels(column, code, rows, out, at)
    first, last = _list_bounds(column, rows)
    at = _put_ends(out, at, _ends(column), rows)
    for part in range(2):
        if first < last:
            texts, data = _part(column, part)
            at = _put_texts(out, at, texts, data, last - first)
        else:
            at = _put_number(out, at, 0)  # the end of no text at all
    return at


@kernel
def _put_one(column: int, kind: int, out: NDArray[np.uint8], at: int) -> int:
    if kind == LIST:
        period = _length(_ends(column), 0)
        at = _put_number(out, at, period)
        for part in range(2):
            texts, data = _part(column, part)
            at = _put_texts(out, at, texts, data, period)
        return at
    texts = peek_i64(column + 8 * _DICTIONARY) if kind == LABEL else column
    return _put_texts(out, at, _ends(texts), _buffer(texts, 2), 1)


@kernel
def _put_texts(out: NDArray[np.uint8], at: int, ends: int, data: int, rows: int) -> int:
    at = _put_ends(out, at, ends, rows)
    first = peek_i32(ends)
    return _put_bytes(out, at, data + first, peek_i32(ends + 4 * rows) - first)


@kernel
def _put_ends(out: NDArray[np.uint8], at: int, ends: int, rows: int) -> int:
    """Where each of the rows ends, from 0 on."""
    _clear_end(out, at, 4 * (rows + 1))
    numbers = out[at : at + 4 * (rows + 1)].view(np.int32)
    first = peek_i32(ends)
    for i in range(rows + 1):
        numbers[i] = peek_i32(ends + 4 * i) - first
    return at + _up(4 * (rows + 1))


@kernel
def _put_labels(column: int, code: int, rows: int, out: NDArray[np.uint8], at: int) -> int:
    """The names, and which of them each row has, in one byte or in four."""
    names = peek_i64(column + 8 * _DICTIONARY)
    count = peek_i64(names + 8 * _ROWS)
    at = _put_texts(out, _put_number(out, at, count), _ends(names), _buffer(names, 2), count)
    each = 1 if code == FEW else 4
    _clear_end(out, at, each * rows)
    numbers = out[at : at + 4 * rows].view(np.int32) if code == PLAIN else out[at:at].view(np.int32)
    for i in range(rows):
        which = max(_index(column, i), 0)
        if code == FEW:
            out[at + i] = which
        else:
            numbers[i] = which
    return at + _up(each * rows)


@kernel
def _put_bits(out: NDArray[np.uint8], at: int, bits: int, offset: int, rows: int) -> int:
    size = _up((rows + 7) // 8)
    out[at : at + size] = 0
    for i in range(rows):
        if _bit(bits, offset + i):
            out[at + i // 8] |= 1 << (i % 8)
    return at + size


@kernel
def _put_bytes(out: NDArray[np.uint8], at: int, source: int, size: int) -> int:
    if size:
        _clear_end(out, at, size)
        copy_bytes(out.ctypes.data + at, source, size)
    return at + _up(size)


@kernel
def _put_number(out: NDArray[np.uint8], at: int, number: int) -> int:
    out[at : at + 8].view(np.int64)[0] = number
    return at + 8


@kernel
def _clear_end(out: NDArray[np.uint8], at: int, size: int) -> None:
    """Zeros where the last 8 bytes of a part will not all be written."""
    if size % 8:
        _put_number(out, at + _up(size) - 8, 0)


# -- what the description says ----------------------------------------------------------------------------------------


@kernel
def _buffer(array: int, which: int) -> int:
    return peek_i64(peek_i64(array + 8 * _BUFFERS) + 8 * which)


@kernel
def _child(array: int, which: int) -> int:
    return peek_i64(peek_i64(array + 8 * _CHILDREN) + 8 * which)


@kernel
def _nulls(array: int) -> int:
    known = peek_i64(array + 8 * _NULLS)
    if known >= 0:
        return known
    bits = _buffer(array, 0)
    if bits == 0:
        return 0
    rows, offset, there = peek_i64(array + 8 * _ROWS), peek_i64(array + 8 * _OFFSET), 0
    for i in range(rows):
        there += _bit(bits, offset + i)
    return rows - there


@kernel
def _bit(bits: int, at: int) -> int:
    return (peek_u8(bits + at // 8) >> (at % 8)) & 1


@kernel
def _ends(array: int) -> int:
    """The address of the number that says where the first row begins; the next one says where it ends."""
    return _buffer(array, 1) + 4 * peek_i64(array + 8 * _OFFSET)


@kernel
def _length(ends: int, row: int) -> int:
    return peek_i32(ends + 4 * (row + 1)) - peek_i32(ends + 4 * row)


@kernel
def _list_bounds(column: int, rows: int) -> tuple[int, int]:
    ends = _ends(column)
    return peek_i32(ends), peek_i32(ends + 4 * rows)


@kernel
def _part(column: int, which: int) -> tuple[int, int]:
    """Keys (0) or values (1) of a column of lists: the ends of its texts, from its first element on, and their bytes."""
    pairs = _child(column, 0)
    texts = _child(pairs, which)
    first = peek_i64(pairs + 8 * _OFFSET) + peek_i32(_ends(column))
    return _ends(texts) + 4 * first, _buffer(texts, 2)


@kernel
def _number(column: int, kind: int) -> int:
    """What the first row says."""
    values, offset = _buffer(column, 1), peek_i64(column + 8 * _OFFSET)
    if kind == FLAG:
        return _bit(values, offset)
    return peek_i32(values + 4 * offset) if kind == INT32 else peek_i64(values + 8 * offset)


@kernel
def _index(column: int, row: int) -> int:
    """Which label a row has; -1 if none."""
    at = peek_i64(column + 8 * _OFFSET) + row
    bits = _buffer(column, 0)
    if bits and not _bit(bits, at):
        return -1
    return peek_i32(_buffer(column, 1) + 4 * at)


@kernel
def _up(size: int) -> int:
    return (size + 7) // 8 * 8
