"""One PUBLISH frame at a time: the twin that the property tests hold `kernels_encode` to. Never used by the node."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value % 0x80 + 0x80]) + varint(value // 0x80)


def field(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def encode_publish(
    row: dict[str, Any], version: int, qos: int, packet_id: int, dup: bool, subscription_ids: Sequence[int] = ()
) -> bytes:
    """The frame of one message, given as a row of the batch (column name -> value)."""
    body = field(row["topic"])
    if qos:
        body += struct.pack(">H", packet_id)
    if version >= 5:
        properties = encode_properties(row, subscription_ids)
        body += varint(len(properties)) + properties
    body += row["payload"] or b""
    return bytes([0x30 | dup << 3 | qos << 1 | bool(row["retain"])]) + varint(len(body)) + body


def encode_properties(row: dict[str, Any], subscription_ids: Sequence[int]) -> bytes:
    out = b""
    if row.get("payload_format") is not None:
        out += bytes([0x01, row["payload_format"]])
    expiry = row.get("message_expiry")
    if expiry is not None and expiry >= 0:
        out += b"\x02" + struct.pack(">I", min(expiry, 0xFFFFFFFF))
    for name, identifier in (("content_type", b"\x03"), ("response_topic", b"\x08"), ("correlation_data", b"\x09")):
        if row.get(name) is not None:
            out += identifier + field(row[name])
    for subscription_id in subscription_ids:
        out += b"\x0b" + varint(subscription_id)
    for pair in row.get("user_properties") or ():
        if pair is not None and pair["key"] is not None:
            out += b"\x26" + field(pair["key"]) + field(pair["value"] or "")
    return out
