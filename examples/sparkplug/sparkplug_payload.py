"""Sparkplug B payloads, read from their bytes: protobuf without generated code.

Of a payload its time and its metrics, of a metric what says which one it is, when it was measured and its value.
Properties, metadata and what comes in later versions are skipped, as protobuf means it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

TYPES = (
    "Unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double", "Boolean",
    "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template",
)  # fmt: skip
"""Sparkplug's data types by their numbers; arrays and property sets have those behind."""

BITS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64}
"""Signed numbers travel as unsigned ones of 32 or 64 bits."""

Value = int | float | bool | str | bytes | None

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_INTEGERS, _FLOAT, _DOUBLE, _BOOLEAN, _STRING, _OTHERS = (10, 11), 12, 13, 14, 15, (16, 17, 18)


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of an edge node or device."""

    name: str | None  # None: the alias stands for it
    alias: int | None
    at: int | None  # milliseconds
    datatype: int | None  # None: as in the birth certificate
    value: Value  # whole numbers as they travel: ``signed`` makes of them what their type means


def metrics_in(payload: bytes) -> Iterator[Metric]:
    """Raises ValueError when these bytes are no payload of Sparkplug."""
    fields = list(_fields(payload))
    at = next((_whole(value) for number, value in fields if number == 1), None)
    for number, value in fields:
        if number == 2:
            yield _metric(_bytes(value), at)


def type_name(datatype: int | None) -> str:
    return TYPES[datatype] if datatype is not None and datatype < len(TYPES) else f"{datatype or 'Unknown'}"


def signed(value: Value, datatype: int | None) -> Value:
    """What a whole number means by its type."""
    bits = BITS.get(type_name(datatype))
    if bits is None or type(value) is not int:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _metric(data: bytes, at: int | None) -> Metric:
    name: str | None = None
    alias: int | None = None
    datatype: int | None = None
    result: Value = None
    for number, value in _fields(data):
        if number == 1:
            name = _bytes(value).decode()
        elif number == 2:
            alias = _whole(value)
        elif number == 3:
            at = _whole(value)
        elif number == 4:
            datatype = _whole(value)
        elif number in _INTEGERS:
            result = _whole(value)
        elif number == _FLOAT:
            (result,) = struct.unpack("<f", _bytes(value, 4))
        elif number == _DOUBLE:
            (result,) = struct.unpack("<d", _bytes(value, 8))
        elif number == _BOOLEAN:
            result = bool(_whole(value))
        elif number == _STRING:
            result = _bytes(value).decode()
        elif number in _OTHERS:
            result = _bytes(value)
    return Metric(name, alias, at, datatype, result)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"no such kind of field: {kind}")
        if at + size > len(data):
            raise ValueError("the payload ends in the middle of a field")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise ValueError("a number does not end")


def _whole(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a field is no number")
    return value


def _bytes(value: int | bytes, size: int | None = None) -> bytes:
    if not isinstance(value, bytes) or size not in (None, len(value)):
        raise ValueError("a field has the wrong length")
    return value
