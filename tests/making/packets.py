"""Bytes as packets, by the plain codec."""

from __future__ import annotations

from bridgehead.wire.decode import decode, frame
from bridgehead.wire.packets import Packet

LIMIT = 300_000_000


def split(data: bytes, version: int) -> tuple[list[Packet], bytes]:
    """The complete packets at the front of ``data``, and what is left behind them."""
    packets = []
    while True:
        head = frame(data, LIMIT)
        if head is None or len(data) < head[1] + head[2]:
            return packets, data
        first, header, remaining = head
        packets.append(decode(first, data[header : header + remaining], version))
        data = data[header + remaining :]
