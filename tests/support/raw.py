"""Bytes on a socket, for what no client library would send."""

from __future__ import annotations

import socket


def text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def packet(first_byte: int, body: bytes) -> bytes:
    """A packet with a body below 16 KiB."""
    size = len(body)
    return bytes([first_byte]) + (bytes([size]) if size < 128 else bytes([size % 128 | 0x80, size // 128])) + body


def connect_packet(
    level: int, client_id: str, *, keep_alive: int = 60, clean: bool = True, will: tuple[str, bytes] | None = None
) -> bytes:
    """A sound CONNECT; a session that is not clean is kept for five minutes."""
    section = b"" if level < 5 else b"\0" if clean else b"\x05\x11\x00\x00\x01\x2c"
    flags = (0x02 if clean else 0) | (0x04 if will else 0)
    body = text("MQTT") + bytes([level, flags]) + keep_alive.to_bytes(2, "big") + section + text(client_id)
    if will is not None:
        topic, payload = will
        body += (b"\0" if level == 5 else b"") + text(topic) + len(payload).to_bytes(2, "big") + payload
    return packet(0x10, body)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError(f"closed after {data.hex()}")
        data += more
    return data


def read_packet(connection: socket.socket) -> tuple[int, bytes]:
    """The next packet: its first byte and its body."""
    first_byte = read_exactly(connection, 1)[0]
    size = shift = 0
    while True:
        digit = read_exactly(connection, 1)[0]
        size |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            return first_byte, read_exactly(connection, size)
