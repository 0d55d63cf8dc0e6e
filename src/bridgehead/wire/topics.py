"""The topic table: small dense numbers for topics, a whole column at a time.

What depends on a topic only (who subscribes, which routes match) is worked out once per number and looked up in arrays
from then on. The table is bounded: when one more topic would pass the limit it forgets all and starts a new generation,
in which numbers begin at 0 again. A column is never split over two generations: its numbers all belong to the one that
`generation` names after the call. A single column with more distinct topics than the limit is served nevertheless, and
the table starts anew with the next call.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridgehead.wire import kernels_topics as k

_FIRST_ENTRIES, _FIRST_ARENA = 1024, 32 * 1024
_STRING = pa.string()


class TopicTable:
    def __init__(self, limit: int = 100_000) -> None:
        if limit < 1:
            raise ValueError("a topic table needs room for one topic")
        self.limit = limit
        self.generation = 0
        self._start_empty()

    def __len__(self) -> int:
        return int(self._counters[k.COUNT])

    def lookup(self, topics: Any) -> tuple[NDArray[np.int32], list[tuple[int, str]]]:
        """The number of every topic of an Arrow string array, and those numbers that are new with their topic.

        After a change of `generation` what was known of earlier numbers is void. A null counts as the empty topic.
        """
        count = len(topics)
        ids = np.empty(count, np.int32)
        if count == 0:
            return ids, []
        if topics.type != _STRING:
            topics = topics.cast(_STRING)
        if topics.null_count:
            topics = topics.fill_null("")
        _, offsets, data = topics.buffers()
        offsets_at = offsets.address + 4 * topics.offset
        data_at = data.address if data is not None else 0
        if len(self) > self.limit:
            self._forget()
        known_before = len(self)
        fresh_rows = np.empty(count, np.int32)
        row = fresh = 0
        while True:
            row, fresh = k.find_topics(
                offsets_at, data_at, row, fresh,
                self._counters, self._slots, self._entries, self._arena, ids, fresh_rows,
            )  # fmt: skip
            if row == count:
                break
            if len(self) < len(self._entries):
                self._widen_arena(len(data))
            elif len(self) < self.limit or known_before == 0:
                self._widen_table()
            else:
                self._forget()
                known_before = row = fresh = 0
        return ids, [(int(ids[at]), topics[at].as_py()) for at in fresh_rows[:fresh].tolist()]

    def _start_empty(self) -> None:
        entries = min(_FIRST_ENTRIES, self.limit)
        self._entries = np.empty((entries, 2), np.int64)
        self._slots = np.zeros((_slots_for(entries), 2), np.int64)
        self._arena = np.empty(_FIRST_ARENA, np.uint8)
        # A seed that a publisher does not know, so that no one can aim topics at one place of the table.
        self._counters = np.array([0, 0, random.getrandbits(63)], np.int64)

    def _forget(self) -> None:
        self._start_empty()
        self.generation += 1

    def _widen_arena(self, at_most: int) -> None:
        """Double the arena, or more if a single topic (never more than `at_most` bytes) needs it."""
        used = int(self._counters[k.ARENA_USED])
        wider = np.empty(max(2 * len(self._arena), used + min(at_most, 0xFFFF)), np.uint8)
        wider[:used] = self._arena[:used]
        self._arena = wider

    def _widen_table(self) -> None:
        used = len(self)
        # Up to the limit the table doubles; beyond it only a column that is larger than the limit takes it.
        size = min(2 * used, self.limit) if used < self.limit else 2 * used
        entries = np.empty((size, 2), np.int64)
        entries[:used] = self._entries[:used]
        slots = np.zeros((_slots_for(size), 2), np.int64)
        k.move_slots(self._slots, slots)
        self._entries, self._slots = entries, slots


def _slots_for(entries: int) -> int:
    """A power of two that stays at most half full."""
    return 1 << (2 * entries - 1).bit_length()
