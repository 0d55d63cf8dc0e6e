"""The intake: where the PUBLISH packets of all connections are collected during one turn of the event loop.

    scan    takes a run of packets of one connection; what it gives back concerns that connection only
    take    hands over the rows of all connections and starts anew

Nothing here waits, reads a clock or knows a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehead.wire import kernels_scan as k
from bridgehead.wire.kernels_scan import CONTROL, ERROR, NEED_MORE

__all__ = ["CONTROL", "ERROR", "NEED_MORE", "Intake", "Rows", "ScanResult", "refused_replies", "replies"]

MAX_PACKET: Final = 268_435_460
"""The longest packet MQTT can express: a fixed header of 5 bytes and 256 MiB - 1 behind it."""

_FIRST_ROWS, _FIRST_ARENA = 1024, 256 * 1024
# Above these a buffer is given away with its content instead of being copied out: one large burst is not paid for
# twice, and its memory does not stay with the intake.
_KEEP_ROWS, _KEEP_ARENA = 16 * 1024, 1024 * 1024


_STARTS: Final = [k.TOPIC_START, k.PROPS_START, k.PAYLOAD_START]  # what of a row is a position in the arena


class ScanResult(NamedTuple):
    consumed: int
    """Position in the buffer behind the last packet taken."""
    stop: int
    """NEED_MORE, CONTROL (the complete packet at `consumed` is for the plain codec) or ERROR."""
    reason: int
    """The MQTT 5 reason code of an ERROR, else 0."""
    row_from: int
    row_to: int
    """The rows of the intake that this run added."""
    replies: bytes
    """The acknowledgements due if everything is accepted, in packet order."""
    acks: NDArray[np.int64]
    """The acknowledgements that came in: packet type (4, 5, 7), packet id, reason."""
    published: int
    """How many PUBLISH packets were taken, repeated ones of QoS 2 included."""
    released: int
    """How many PUBREL packets were taken; each has its PUBCOMP in `replies`."""
    need: int
    """Total length of the packet at `consumed`, 0 if its header is not complete (or stop is ERROR)."""
    ids_from: int
    ids_to: int
    """All QoS 2 packet ids whose mark this run has set or cleared lie in [ids_from, ids_to); 0 and 0 if there are none."""


class Rows(NamedTuple):
    """What was collected: descriptors (columns as named in `kernels_scan`) and the bytes they point into."""

    rows: NDArray[np.int64]
    arena: NDArray[np.uint8]

    def only(self, chosen: NDArray[np.int64]) -> Rows:
        """Some of the rows, without the bytes of the others."""
        rows = self.rows[chosen]
        starts, ends = rows[:, k.TOPIC_START], rows[:, k.PAYLOAD_START] + rows[:, k.PAYLOAD_LEN]
        parts = [self.arena[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        moved = ends - np.cumsum(ends - starts)  # to where the parts before it end
        rows[:, _STARTS] -= moved[:, np.newaxis]
        return Rows(rows, np.concatenate([self.arena[:0], *parts]))

    def joined(self, behind: Rows) -> Rows:
        """These rows, then those."""
        rows = np.concatenate((self.rows, behind.rows))
        rows[len(self.rows) :, _STARTS] += len(self.arena)
        return Rows(rows, np.concatenate((self.arena, behind.arena)))


class Intake:
    def __init__(self) -> None:
        self.rows_used = 0
        self.bytes_used = 0
        self._rows = np.empty((_FIRST_ROWS, k.ROW_WIDTH), np.int64)
        self._arena = np.empty(_FIRST_ARENA, np.uint8)
        # Room for what one run gives back; it is copied out before scan returns.
        self._acks = np.empty((_FIRST_ROWS, 3), np.int64)
        self._replies = np.empty(4 * _FIRST_ROWS, np.uint8)
        self._tally = np.zeros(k.TALLY_WIDTH, np.int64)
        self._no_acks = np.empty((0, 3), np.int64)

    def scan(
        self,
        buf: NDArray[np.uint8] | memoryview | bytearray | bytes,
        start: int,
        end: int,
        version: int,
        conn: int,
        inbound: NDArray[np.uint8],
        max_packet: int = MAX_PACKET,
        *,
        from_server: bool = False,
    ) -> ScanResult:
        """Take the run of PUBLISH and acknowledgement packets at the front of buf[start:end].

        `inbound` (65,536 bytes, indexed by packet id) marks the QoS 2 messages received but not yet released: a
        PUBLISH whose id is marked adds no row but is answered, a PUBREL clears the mark. The bytes are copied: the
        buffer may be reused at once.
        """
        if not isinstance(buf, np.ndarray):
            buf = np.frombuffer(buf, np.uint8)
        if not buf.flags.writeable:  # read-only arrays are another type to numba
            buf = buf.copy()
        tally = self._tally
        tally.fill(0)
        tally[k.ROWS_USED] = row_from = self.rows_used
        consumed = start
        while True:
            consumed, stop, reason = k.scan_run(
                buf, consumed, end, version, conn, max_packet, 1 if from_server else 0, self.bytes_used,
                inbound, self._rows, self._acks, self._replies, tally,
            )  # fmt: skip
            if stop != k.FULL:
                break
            self._make_room(int(tally[k.ROWS_USED]))
        row_to, n_acks, n_replies, published, released, copy_from, copy_to, need, ids_from, ids_to = tally.tolist()
        if row_to > row_from:
            self._keep(buf[copy_from:copy_to])
            self.rows_used = row_to
        return ScanResult(
            consumed, stop, reason, row_from, row_to,
            self._replies[:n_replies].tobytes() if n_replies else b"",
            self._acks[:n_acks].copy() if n_acks else self._no_acks,
            published, released, need, ids_from, ids_to,
        )  # fmt: skip

    def take(self) -> Rows:
        """Hand over everything collected since the last take; later scans do not touch it."""
        rows, arena = self._rows[: self.rows_used], self._arena[: self.bytes_used]
        if len(self._rows) > _KEEP_ROWS:
            self._rows = np.empty((_FIRST_ROWS, k.ROW_WIDTH), np.int64)
        else:
            rows = rows.copy()
        if len(self._arena) > _KEEP_ARENA:
            self._arena = np.empty(_FIRST_ARENA, np.uint8)
        else:
            arena = arena.copy()
        self.rows_used = self.bytes_used = 0
        return Rows(rows, arena)

    def _keep(self, run: NDArray[np.uint8]) -> None:
        used = self.bytes_used
        after = used + len(run)
        if after > len(self._arena):
            larger = np.empty(max(after, 2 * len(self._arena)), np.uint8)
            larger[:used] = self._arena[:used]
            self._arena = larger
        self._arena[used:after] = run
        self.bytes_used = after

    def _make_room(self, rows_used: int) -> None:
        """Double whatever is nearly full; the scan then goes on where it stopped."""
        tally = self._tally
        if rows_used == len(self._rows):
            rows = np.empty((2 * rows_used, k.ROW_WIDTH), np.int64)
            rows[:rows_used] = self._rows
            self._rows = rows
        n_acks, n_replies = int(tally[k.ACKS_USED]), int(tally[k.REPLIES_USED])
        if n_acks == len(self._acks):
            acks = np.empty((2 * n_acks, 3), np.int64)
            acks[:n_acks] = self._acks
            self._acks = acks
        if 2 * n_replies > len(self._replies):
            larger = np.empty(2 * len(self._replies), np.uint8)
            larger[:n_replies] = self._replies[:n_replies]
            self._replies = larger


def replies(version: int, rows: NDArray[np.int64], reason: int = 0) -> bytes:
    """The PUBACK or PUBREC of each row with QoS 1 or 2, in order.

    Only MQTT 5 can carry a reason; to a 3.1.1 peer the plain acknowledgement is the only answer there is. A refused
    (reason >= 0x80) QoS 2 message is over: the caller clears its mark in `inbound`.
    """
    out = bytearray()
    for flags, packet_id in rows[:, [k.FLAGS, k.PACKET_ID]].tolist():
        qos = flags & k.QOS_MASK
        if qos:
            out += _acknowledgement(0x40 if qos == 1 else 0x50, version, packet_id, reason)
    return bytes(out)


def refused_replies(run: bytes, version: int, reasons: Mapping[int, int]) -> bytes:
    """The replies of a run with the PUBACK or PUBREC of some packet ids turned into refusals; the order stays."""
    out = bytearray()
    at = 0
    while at < len(run):
        stop = at + 2 + run[at + 1]
        packet_id = int.from_bytes(run[at + 2 : at + 4], "big")
        if run[at] != 0x70 and packet_id in reasons:
            out += _acknowledgement(run[at], version, packet_id, reasons[packet_id])
        else:
            out += run[at:stop]
        at = stop
    return bytes(out)


def _acknowledgement(first: int, version: int, packet_id: int, reason: int) -> bytes:
    if version >= 5 and reason:
        return bytes((first, 3, packet_id >> 8, packet_id & 0xFF, reason))
    return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
