"""The outbound flow: packet ids and in-flight state of the QoS 1 and 2 messages that we send to one peer.

One table says how an id moves; whatever does not stand in it changes nothing and is counted as unknown:

    state           on                        becomes         and
    FREE            take, QoS 1               AWAIT_PUBACK
    FREE            take, QoS 2               AWAIT_PUBREC
    AWAIT_PUBACK    PUBACK                    FREE            done (reason >= 0x80: refused)
    AWAIT_PUBREC    PUBREC                    AWAIT_PUBCOMP   PUBREL
    AWAIT_PUBREC    PUBREC, reason >= 0x80    FREE            done (refused)
    AWAIT_PUBCOMP   PUBREC                    AWAIT_PUBCOMP   PUBREL again
    AWAIT_PUBCOMP   PUBCOMP                   FREE            done
    FREE, others    PUBREC                    (unchanged)     PUBREL (in MQTT 5 with reason 0x92), unknown
    FREE            restore                   RESERVED        (PUBREC was not known)
    FREE            restore                   AWAIT_PUBCOMP   (PUBREC was known)
    RESERVED        take, QoS 2, with its id  AWAIT_PUBREC
    RESERVED        anything of the peer      (unchanged)     unknown, no reply: a PUBREL would end what is not sent again yet
    any             settle                    AWAIT_PUBCOMP   PUBREL; the message is nobody's any more

Pure: nothing is sent from here. What is in flight is what is neither FREE nor RESERVED; no one else counts it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehead.wire import kernels_flow as k
from bridgehead.wire.arrays import prepared
from bridgehead.wire.kernels_flow import AWAIT_PUBACK, AWAIT_PUBCOMP, AWAIT_PUBREC, FREE, RESERVED

__all__ = [
    "AWAIT_PUBACK",
    "AWAIT_PUBCOMP",
    "AWAIT_PUBREC",
    "FREE",
    "NOBODY",
    "RESERVED",
    "AckResult",
    "InFlight",
    "OutboundFlow",
]

LAST_ID = 65535
NOBODY = -1
"""The owner of an id that is only waiting to be free: its message is gone."""


class AckResult(NamedTuple):
    done_id: NDArray[np.uint16]
    done_owner: NDArray[np.int32]
    done_seq: NDArray[np.int64]
    done_reason: NDArray[np.int16]
    """What is over, in the order of the acknowledgements. A reason of 0x80 and above is a refusal by the peer."""
    received: NDArray[np.uint16]
    """The ids whose PUBREC came for the first time: whoever promises exactly once records them before PUBREL leaves."""
    replies: bytes
    """The PUBREL packets due, in order."""
    unknown: int
    """How many acknowledgements did not fit any id in flight."""


class InFlight(NamedTuple):
    ids: NDArray[np.uint16]
    owner: NDArray[np.int32]
    seq: NDArray[np.int64]
    state: NDArray[np.uint8]


class OutboundFlow:
    """`window` bounds how many ids may be in flight (the peer's Receive Maximum) and may change at any time.

    Ids are taken from first_id to last_id; memory grows with last_id, so a flow with a small window does well with a
    small range. Ids outside of it belong to others (SUBSCRIBE).
    """

    def __init__(self, window: int, first_id: int = 1, last_id: int = LAST_ID) -> None:
        if not 1 <= first_id <= last_id <= LAST_ID:
            raise ValueError(f"packet ids from {first_id} to {last_id} do not exist")
        self.window = window
        self._first = first_id
        self._state = np.zeros(last_id + 1, np.uint8)
        self._slots = np.zeros((last_id + 1, 3), np.int64)
        self._counters = np.zeros(4, np.int64)
        self._counters[k.CURSOR] = first_id

    @property
    def in_flight(self) -> int:
        return int(self._counters[k.IN_FLIGHT])

    @property
    def reserved(self) -> int:
        """How many ids an earlier life has left whose messages are to be sent again with them."""
        return int(self._counters[k.N_RESERVED])

    @property
    def free(self) -> int:
        """How many ids nobody has."""
        return len(self._state) - self._first - self.in_flight - self.reserved

    @property
    def in_flight_qos2(self) -> int:
        return int(np.count_nonzero((self._state == AWAIT_PUBREC) | (self._state == AWAIT_PUBCOMP)))

    @property
    def oldest_unanswered(self) -> int:
        """When the first message was sent that the peer has said nothing of, by the order of sending; -1 if there is none."""
        waiting = np.flatnonzero((self._state == AWAIT_PUBACK) | (self._state == AWAIT_PUBREC))
        return int(self._slots[waiting, k.ORDER].min()) if len(waiting) else -1

    def sent_at(self, packet_id: int) -> int:
        """When the message was sent that has, or had last, this id, by the order of sending."""
        return int(self._slots[packet_id, k.ORDER])

    @property
    def room(self) -> int:
        """How many more QoS 1 and 2 messages may be sent now."""
        return max(0, min(self.window, len(self._state) - self._first) - self.in_flight)

    def take(
        self, owner: int, seqs: NDArray[np.int64], qos: NDArray[np.uint8], kept: NDArray[np.uint16] | None = None
    ) -> NDArray[np.uint16]:
        """An id for every message, 0 for those with QoS 0. The caller sends no more than there is room for.

        ``kept`` are the reserved ids of those that have one, as ``kept_ids`` says.
        """
        ids = np.zeros(len(qos), np.uint16) if kept is None else kept.copy()
        seqs, qos = prepared(seqs, np.int64), prepared(qos, np.uint8)
        if len(seqs) != len(qos):
            raise ValueError(f"{len(seqs)} sequences for {len(qos)} messages")
        if not k.take_ids(self._state, self._slots, self._counters, self._first, int(owner), seqs, qos, ids):
            raise ValueError("more messages than free packet ids")
        return ids

    def acks(self, acks: NDArray[np.int64], version: int) -> AckResult:
        """Apply what came in, as `ScanResult.acks` has it: packet type, packet id, reason."""
        acks = prepared(acks, np.int64)
        count = len(acks)
        done, received = np.empty((count, 4), np.int64), np.empty(count, np.uint16)
        replies = np.empty(5 * count, np.uint8)
        n_done, n_received, n_replies, unknown = k.apply_acks(
            self._state, self._slots, self._counters, version, acks, done, received, replies
        )
        done = done[:n_done]
        return AckResult(
            done[:, k.DONE_ID].astype(np.uint16),
            done[:, k.DONE_OWNER].astype(np.int32),
            done[:, k.DONE_SEQ].copy(),
            done[:, k.DONE_REASON].astype(np.int16),
            received[:n_received],
            replies[:n_replies].tobytes(),
            unknown,
        )

    def unacknowledged(self) -> InFlight:
        """Everything in flight in the order of sending: to be sent again after a reconnect.

        AWAIT_PUBACK and AWAIT_PUBREC want their PUBLISH with DUP, AWAIT_PUBCOMP its PUBREL.
        """
        ids = np.flatnonzero(self._state)
        order = np.argsort(self._slots[ids, k.ORDER])
        return self.among(ids[order].astype(np.uint16))

    def among(self, ids: NDArray[np.uint16]) -> InFlight:
        """Those of these ids that are in flight, in the order given."""
        state = self._state[ids]
        return self.at(ids[(state != FREE) & (state != RESERVED)])

    def at(self, ids: NDArray[np.uint16]) -> InFlight:
        """What these ids stand for, whatever their state."""
        slots = self._slots[ids]
        return InFlight(ids, slots[:, k.OWNER].astype(np.int32), slots[:, k.SEQ].copy(), self._state[ids])

    def unused(self) -> NDArray[np.uint16]:
        """The ids that nobody has."""
        ids = np.flatnonzero(self._state == FREE)
        return ids[ids >= self._first].astype(np.uint16)

    def clear(self) -> InFlight:
        """The peer's session is lost: everything in flight is given back, and every id is free."""
        lost = self.unacknowledged()
        self._state.fill(FREE)
        self._counters[k.IN_FLIGHT] = self._counters[k.N_RESERVED] = 0
        return lost

    # -- what an earlier life has left ----------------------------------------------------------------------------------

    def restore(self, kept: InFlight) -> None:
        """Take up the QoS 2 ids of an earlier life of this flow, in its order of sending; the flow must be empty."""
        if self.in_flight or self.reserved:
            raise ValueError("a flow with messages in flight cannot be restored")
        ids = kept.ids.astype(np.int64)
        if len(ids) == 0:
            return
        if len(np.unique(ids)) != len(ids) or ids.min() < self._first or ids.max() >= len(self._state):
            raise ValueError("the packet ids to restore are doubled or out of range")
        if not np.isin(kept.state, (AWAIT_PUBREC, AWAIT_PUBCOMP)).all():
            raise ValueError("only what is half-way through QoS 2 can be restored")
        self._state[ids] = np.where(kept.state == AWAIT_PUBREC, RESERVED, AWAIT_PUBCOMP)
        self._slots[ids, k.OWNER] = kept.owner
        self._slots[ids, k.SEQ] = kept.seq
        start = int(self._counters[k.NEXT_ORDER])
        self._slots[ids, k.ORDER] = np.arange(start, start + len(ids))
        self._counters[k.NEXT_ORDER] = start + len(ids)
        self._counters[k.N_RESERVED] = int(np.count_nonzero(kept.state == AWAIT_PUBREC))
        self._counters[k.IN_FLIGHT] = len(ids) - self.reserved
        # New ids follow the last one sent, as they would have without the interruption.
        following = int(ids[-1]) + 1
        self._counters[k.CURSOR] = following if following < len(self._state) else self._first

    def reservations(self) -> InFlight:
        """The reserved ids, and whose they are."""
        return self.at(np.flatnonzero(self._state == RESERVED).astype(np.uint16))

    def kept_ids(self, owner: int, seqs: NDArray[np.int64]) -> NDArray[np.uint16] | None:
        """The reserved id of each of these messages (rising), 0 where there is none; None if none has one."""
        if not self.reserved:
            return None
        ids, owners, reserved, _ = self.reservations()
        at = np.searchsorted(seqs, reserved).clip(max=len(seqs) - 1)
        mine = (owners == owner) & (seqs[at] == reserved)
        if not mine.any():
            return None
        kept = np.zeros(len(seqs), np.uint16)
        kept[at[mine]] = ids[mine]
        return kept

    def settle(self, ids: NDArray[np.uint16]) -> None:
        """The messages of these ids are gone, but the peer may hold them half-way: PUBREL frees each id at both ends."""
        reserved = int(np.count_nonzero(self._state[ids] == RESERVED))
        self._counters[k.N_RESERVED] -= reserved
        self._counters[k.IN_FLIGHT] += reserved + int(np.count_nonzero(self._state[ids] == FREE))
        self._state[ids] = AWAIT_PUBCOMP
        self._slots[ids, k.OWNER] = NOBODY
