"""What a packet case is, and the two helpers that keep its bytes readable."""

from __future__ import annotations

from dataclasses import dataclass

from bridgehead.wire.packets import Packet
from bridgehead.wire.reason import Reason


@dataclass(frozen=True, slots=True)
class Case:
    """One packet, whole, as it stands on the wire, and what is due for it: either ``packet`` or ``reason``."""

    name: str
    """A sentence; where the standard has a statement of its own for it, with its tag."""

    version: int
    """The protocol level of the conversation: 4 is MQTT 3.1.1, 5 is MQTT 5."""

    data: bytes
    packet: Packet | None = None
    reason: Reason | None = None
    canonical: bool = True
    """Is this the form our encoder writes?"""

    @property
    def first_byte(self) -> int:
        return self.data[0]

    @property
    def body(self) -> bytes:
        """What stands behind the fixed header; only for cases whose header is sound."""
        size_bytes = next(index for index in range(1, 5) if self.data[index] < 0x80)
        return self.data[1 + size_bytes :]

    def __str__(self) -> str:
        return f"v{self.version} {self.name}"


def accepted(name: str, version: int, data: bytes, packet: Packet, *, canonical: bool = True) -> Case:
    return Case(name, version, data, packet=packet, canonical=canonical)


def refused(name: str, version: int, data: bytes, reason: Reason) -> Case:
    return Case(name, version, data, reason=reason, canonical=False)


def in_both(make: Case) -> list[Case]:
    """The same bytes mean the same in 3.1.1 and in 5."""
    return [
        Case(make.name, version, make.data, make.packet, make.reason, make.canonical) for version in (4, 5)
    ]


def wire(first_byte: str, *parts: str) -> bytes:
    """A packet from hexadecimal parts; the remaining length is counted here, by other code than the encoder's."""
    body = bytes.fromhex("".join(parts))
    size, length = len(body), bytearray()
    while True:
        size, digit = divmod(size, 128)
        length.append(digit | (0x80 if size else 0))
        if not size:
            return bytes.fromhex(first_byte) + bytes(length) + body


def s(text: str) -> str:
    """A string field in hexadecimal: two bytes of length, then UTF-8."""
    return b(text.encode())


def b(data: bytes) -> str:
    """A binary field in hexadecimal: two bytes of length, then the bytes."""
    return len(data).to_bytes(2, "big").hex() + data.hex()


def p(*parts: str) -> str:
    """A property section in hexadecimal: its length (below 128), then the properties."""
    section = "".join(parts).replace(" ", "")
    return f"{len(section) // 2:02x}{section}"
