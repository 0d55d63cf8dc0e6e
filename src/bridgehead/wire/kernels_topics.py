"""The topic table's search: open addressing over a 64-bit hash, with the bytes compared, so no two topics are confused.

    slots    hash and id + 1 of each topic, 0 for an empty place; a power of two, at most half full
    entries  start and length of each topic's bytes in the arena, by id

`bridgehead.wire.topics` is the door; a Python dict says the same slowly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import copy_bytes, kernel, peek_i32, peek_i64, peek_u8

COUNT, ARENA_USED, SEED = range(3)


@kernel
def _mixed(value: int, word: int) -> int:
    """One step of the hash: 64-bit arithmetic that wraps."""
    mixed = np.uint64(np.uint64(value) ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64(mixed ^ (mixed >> np.uint64(29))))


@kernel
def _hash(address: int, length: int, seed: int) -> int:
    value = _mixed(seed, length)
    if length >= 8:
        for at in range(0, length - 8, 8):
            value = _mixed(value, peek_i64(address + at))
        return _mixed(value, peek_i64(address + length - 8))
    word = np.int64(0)
    for at in range(length):
        word = word << 8 | peek_u8(address + at)
    return _mixed(value, int(word))


@kernel
def _same(one: int, other: int, length: int) -> bool:
    if length >= 8:
        for at in range(0, length - 8, 8):
            if peek_i64(one + at) != peek_i64(other + at):
                return False
        return bool(peek_i64(one + length - 8) == peek_i64(other + length - 8))
    for at in range(length):  # noqa: SIM110 - a generator does not compile
        if peek_u8(one + at) != peek_u8(other + at):
            return False
    return True


@kernel
def find_topics(
    offsets: int,
    data: int,
    row: int,
    fresh: int,
    counters: NDArray[np.int64],
    slots: NDArray[np.int64],
    entries: NDArray[np.int64],
    arena: NDArray[np.uint8],
    ids: NDArray[np.int32],
    fresh_rows: NDArray[np.int32],
) -> tuple[int, int]:
    """Look up the topics from `row` on; new ones are added and their rows noted. Stops at a row it has no room for."""
    mask = len(slots) - 1
    for i in range(row, len(ids)):
        start = peek_i32(offsets + 4 * i)
        length = peek_i32(offsets + 4 * i + 4) - start
        code = _hash(data + start, length, counters[SEED])
        place = code & mask
        while True:
            found = slots[place, 1] - 1
            if found < 0:
                break
            if (
                slots[place, 0] == code
                and entries[found, 1] == length
                and _same(arena.ctypes.data + entries[found, 0], data + start, length)
            ):
                break
            place = (place + 1) & mask
        if found < 0:
            found, used = counters[COUNT], counters[ARENA_USED]
            if found == len(entries) or used + length > len(arena):
                return i, fresh
            copy_bytes(arena.ctypes.data + used, data + start, length)
            entries[found, 0] = used
            entries[found, 1] = length
            slots[place, 0] = code
            slots[place, 1] = found + 1
            counters[COUNT] = found + 1
            counters[ARENA_USED] = used + length
            fresh_rows[fresh] = i
            fresh += 1
        ids[i] = found
    return len(ids), fresh


@kernel
def move_slots(old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
    """Fill a larger, empty table from a smaller one."""
    mask = len(new) - 1
    for i in range(len(old)):
        if old[i, 1]:
            place = old[i, 0] & mask
            while new[place, 1]:
                place = (place + 1) & mask
            new[place, 0] = old[i, 0]
            new[place, 1] = old[i, 1]
