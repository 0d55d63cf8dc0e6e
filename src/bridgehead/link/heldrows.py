"""Rows of a sender that is held back, in order, with the acknowledgements that are due when they get in."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_scan import FLAGS, PACKET_ID, QOS_MASK
from bridgehead.wire.packettype import PacketType

PUBCOMP: Final = PacketType.PUBCOMP << 4


class HeldRows:
    """What one sender has sent and nobody has taken yet."""

    def __init__(self, rows: Rows, why: object) -> None:
        self.rows = rows
        self.why = why  # what keeps them out
        self.replies = b""

    @property
    def size(self) -> int:
        return len(self.rows.arena)

    def follow(self, rows: Rows) -> None:
        """More of the same sender: they wait behind."""
        self.rows = self.rows.joined(rows)

    def keep_replies(self, replies: bytes, own: npt.NDArray[np.int64], admitted: int) -> bytes:
        """Of the acknowledgements for a sender's rows those that are due now: up to the first row that is held."""
        at = reply_of(replies, own, admitted)
        self.replies += replies[at:]
        return replies[:at]


def only_completions(replies: bytes) -> bytes:
    """Those that answer PUBREL, for what was taken earlier."""
    kept, at = b"", 0
    while at < len(replies):
        following = at + 2 + replies[at + 1]
        if replies[at] == PUBCOMP:
            kept += replies[at:following]
        at = following
    return kept


def reply_of(replies: bytes, own: npt.NDArray[np.int64], row: int) -> int:
    """Where among the replies of one sender the acknowledgement of this row begins; all of them if it has none.

    A repeated QoS 2 message has an acknowledgement and no row; it is told by its id, which is not that of the next row.
    """
    acknowledged = [(at, int(packet_id)) for at, packet_id in enumerate(own[:, PACKET_ID]) if own[at, FLAGS] & QOS_MASK]
    at, expected = 0, 0
    while at < len(replies) and expected < len(acknowledged):
        position, packet_id = acknowledged[expected]
        if replies[at] != PUBCOMP and int.from_bytes(replies[at + 2 : at + 4], "big") == packet_id:
            if position >= row:
                return at
            expected += 1
        at += 2 + replies[at + 1]
    return len(replies)
