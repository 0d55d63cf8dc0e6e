"""Packet ids of the messages we send: taken, moved on by acknowledgements, freed.

The state lies in arrays indexed by packet id; the counters beside them in one small array, changed here only.
`bridgehead.wire.flow` is the door.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import kernel

FREE, AWAIT_PUBACK, AWAIT_PUBREC, AWAIT_PUBCOMP, RESERVED = range(5)

# Columns of the slot table: which queue, its sequence there, and the place in the order of sending.
OWNER, SEQ, ORDER = range(3)

# The counters.
CURSOR, NEXT_ORDER, IN_FLIGHT, N_RESERVED = range(4)

# Columns of what acknowledgements have done: DONE_ID, DONE_OWNER, DONE_SEQ, DONE_REASON.
DONE_ID, DONE_OWNER, DONE_SEQ, DONE_REASON = range(4)

_PUBACK, _PUBREC, _PUBCOMP = 4, 5, 7
_REFUSED = 0x80
_ID_NOT_FOUND = 0x92


@kernel
def take_ids(
    state: NDArray[np.uint8],
    slots: NDArray[np.int64],
    counters: NDArray[np.int64],
    first: int,
    owner: int,
    seqs: NDArray[np.int64],
    qos: NDArray[np.uint8],
    ids: NDArray[np.uint16],
) -> bool:
    """Give every message with QoS 1 or 2 the next free id, or the reserved one that already stands in its place.

    False (and nothing taken) if there are not enough.
    """
    wanted = 0
    for i in range(len(qos)):
        if qos[i] and not ids[i]:
            wanted += 1
    if wanted > len(state) - first - counters[IN_FLIGHT] - counters[N_RESERVED]:
        return False
    cursor = counters[CURSOR]
    for i in range(len(qos)):
        if qos[i] == 0:
            ids[i] = 0
            continue
        if ids[i]:
            counters[N_RESERVED] -= 1
        else:
            while state[cursor] != FREE:
                cursor = cursor + 1 if cursor + 1 < len(state) else first
            ids[i] = cursor
            cursor = cursor + 1 if cursor + 1 < len(state) else first
        packet_id = ids[i]
        state[packet_id] = AWAIT_PUBACK if qos[i] == 1 else AWAIT_PUBREC
        slots[packet_id, OWNER] = owner
        slots[packet_id, SEQ] = seqs[i]
        slots[packet_id, ORDER] = counters[NEXT_ORDER]
        counters[NEXT_ORDER] += 1
        counters[IN_FLIGHT] += 1
    counters[CURSOR] = cursor
    return True


@kernel
def apply_acks(
    state: NDArray[np.uint8],
    slots: NDArray[np.int64],
    counters: NDArray[np.int64],
    version: int,
    acks: NDArray[np.int64],
    done: NDArray[np.int64],
    received: NDArray[np.uint16],
    replies: NDArray[np.uint8],
) -> tuple[int, int, int, int]:
    """Apply acknowledgements in order; gives how many are done, newly received, bytes of reply, and unknown ids."""
    n_done, n_received, n_replies, unknown = 0, 0, 0, 0
    for i in range(len(acks)):
        kind, packet_id, reason = acks[i, 0], acks[i, 1], acks[i, 2]
        now = state[packet_id] if 0 < packet_id < len(state) else FREE
        if now == RESERVED:
            unknown += 1
            continue
        if kind == _PUBREC and reason < _REFUSED:
            if now == AWAIT_PUBREC:
                state[packet_id] = AWAIT_PUBCOMP
                received[n_received] = packet_id
                n_received += 1
            known = now in (AWAIT_PUBREC, AWAIT_PUBCOMP)
            if not known:
                unknown += 1
            short = known or version < 5
            replies[n_replies] = 0x62
            replies[n_replies + 1] = 2 if short else 3
            replies[n_replies + 2] = packet_id >> 8
            replies[n_replies + 3] = packet_id & 0xFF
            replies[n_replies + 4] = _ID_NOT_FOUND
            n_replies += 4 if short else 5
            continue
        if kind == _PUBACK:
            due = now == AWAIT_PUBACK
        elif kind == _PUBREC:
            due = now == AWAIT_PUBREC
        else:
            due = kind == _PUBCOMP and now == AWAIT_PUBCOMP
        if not due:
            unknown += 1
            continue
        state[packet_id] = FREE
        counters[IN_FLIGHT] -= 1
        done[n_done, DONE_ID] = packet_id
        done[n_done, DONE_OWNER] = slots[packet_id, OWNER]
        done[n_done, DONE_SEQ] = slots[packet_id, SEQ]
        # A PUBCOMP's reason is about the packet id, not about the message: that was accepted by the PUBREC.
        done[n_done, DONE_REASON] = 0 if kind == _PUBCOMP else reason
        n_done += 1
    return n_done, n_received, n_replies, unknown
