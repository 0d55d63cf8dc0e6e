"""The field types MQTT is made of: read from a packet body by ``Reader``, written by the ``write_*`` functions.

A ``Reader`` refuses a field that is cut short, text that is not strict UTF-8, and bytes left over, as MALFORMED_PACKET.
The writers raise ``ValueError`` for what has no form on the wire.
"""

from __future__ import annotations

from bridgehead.errors import ProtocolError
from bridgehead.wire.reason import Reason

VARINT_MAX = 268_435_455
"""The largest variable byte integer (four bytes), and so the largest remaining length."""


def malformed(message: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED_PACKET, message)


def protocol_error(message: str) -> ProtocolError:
    return ProtocolError(Reason.PROTOCOL_ERROR, message)


class Reader:
    """A cursor over one packet body. ``what`` in each call names the field for the error message."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes | memoryview, pos: int = 0) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data)  # a property section narrows it while it is read

    def _take(self, size: int, what: str) -> int:
        start = self.pos
        if start + size > self.end:
            raise malformed(f"{what} is cut short")
        self.pos = start + size
        return start

    def u8(self, what: str) -> int:
        return self.data[self._take(1, what)]

    def u16(self, what: str) -> int:
        start = self._take(2, what)
        return self.data[start] << 8 | self.data[start + 1]

    def u32(self, what: str) -> int:
        start = self._take(4, what)
        return int.from_bytes(self.data[start : start + 4], "big")

    def varint(self, what: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise malformed(f"{what} takes more bytes than it needs [MQTT-1.5.5-1]")
                return value
        raise malformed(f"{what} is a number of more than four bytes")

    def binary(self, what: str) -> bytes:
        size = self.u16(what)
        start = self._take(size, what)
        return bytes(self.data[start : start + size])

    def string(self, what: str) -> str:
        size = self.u16(what)
        start = self._take(size, what)
        return text(self.data[start : start + size], what)

    def done(self, what: str) -> None:
        if self.pos != self.end:
            raise malformed(f"{what} has {self.end - self.pos} bytes left over")


def text(data: bytes | memoryview, what: str) -> str:
    """Strict UTF-8: Python's codec refuses surrogates and overlong forms and keeps a byte order mark
    [MQTT-1.5.4-1] [MQTT-1.5.4-3]; U+0000 is ours to refuse [MQTT-1.5.4-2]."""
    try:
        decoded = str(data, "utf-8")
    except UnicodeDecodeError as fault:
        raise malformed(f"{what} is not UTF-8: {fault.reason}") from None
    if "\0" in decoded:
        raise malformed(f"{what} has a null character")
    return decoded


def write_u8(value: int) -> bytes:
    return _fixed(value, 1)


def write_u16(value: int) -> bytes:
    return _fixed(value, 2)


def write_u32(value: int) -> bytes:
    return _fixed(value, 4)


def write_varint(value: int) -> bytes:
    if value < 0 or value > VARINT_MAX:
        raise ValueError(f"{value} does not fit a variable byte integer")
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_binary(data: bytes) -> bytes:
    if len(data) > 0xFFFF:
        raise ValueError(f"{len(data)} bytes are too long for a field of at most 65535")
    return len(data).to_bytes(2, "big") + data


def write_string(value: str) -> bytes:
    if "\0" in value:
        raise ValueError("text on the wire cannot have a null character")
    return write_binary(value.encode("utf-8"))


def _fixed(value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "big")
    except OverflowError:
        raise ValueError(f"{value} does not fit {size} bytes") from None
