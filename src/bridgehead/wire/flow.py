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

Pure: nothing is sent from here. What is in flight is what is not FREE; no one else counts it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehead.wire import kernels_flow as k
from bridgehead.wire.arrays import prepared
from bridgehead.wire.kernels_flow import AWAIT_PUBACK, AWAIT_PUBCOMP, AWAIT_PUBREC, FREE

__all__ = ["AWAIT_PUBACK", "AWAIT_PUBCOMP", "AWAIT_PUBREC", "FREE", "AckResult", "InFlight", "OutboundFlow"]

LAST_ID = 65535


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
        self._counters = np.zeros(3, np.int64)
        self._counters[k.CURSOR] = first_id

    @property
    def in_flight(self) -> int:
        return int(self._counters[k.IN_FLIGHT])

    @property
    def in_flight_qos2(self) -> int:
        return int(np.count_nonzero((self._state == AWAIT_PUBREC) | (self._state == AWAIT_PUBCOMP)))

    @property
    def room(self) -> int:
        """How many more QoS 1 and 2 messages may be sent now."""
        return max(0, min(self.window, len(self._state) - self._first) - self.in_flight)

    def take(self, owner: int, seqs: NDArray[np.int64], qos: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """An id for every message, 0 for those with QoS 0. The caller sends no more than there is room for."""
        ids = np.empty(len(qos), np.uint16)
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
        ids = ids[self._state[ids] != FREE]
        slots = self._slots[ids]
        return InFlight(ids, slots[:, k.OWNER].astype(np.int32), slots[:, k.SEQ].copy(), self._state[ids])

    def clear(self) -> InFlight:
        """The peer's session is lost: everything in flight is given back, and every id is free."""
        lost = self.unacknowledged()
        self._state.fill(FREE)
        self._counters[k.IN_FLIGHT] = 0
        return lost

    def restore(self, kept: InFlight) -> None:
        """Take up what an earlier life of this flow had in flight, in its order of sending; the flow must be empty."""
        if self.in_flight:
            raise ValueError("a flow with messages in flight cannot be restored")
        ids = kept.ids.astype(np.int64)
        if len(ids) == 0:
            return
        if len(np.unique(ids)) != len(ids) or ids.min() < self._first or ids.max() >= len(self._state):
            raise ValueError("the packet ids to restore are doubled or out of range")
        self._state[ids] = kept.state
        self._slots[ids, k.OWNER] = kept.owner
        self._slots[ids, k.SEQ] = kept.seq
        start = int(self._counters[k.NEXT_ORDER])
        self._slots[ids, k.ORDER] = np.arange(start, start + len(ids))
        self._counters[k.NEXT_ORDER] = start + len(ids)
        self._counters[k.IN_FLIGHT] = int(np.count_nonzero(kept.state))
        # New ids follow the last one sent, as they would have without the interruption.
        following = int(ids[-1]) + 1
        self._counters[k.CURSOR] = following if following < len(self._state) else self._first
