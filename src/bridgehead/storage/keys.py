"""Keys of the file-native engine: a kind, the parts of a shelf each behind its length, and a number that sorts as bytes.

No shelf's key is the beginning of another's, whatever its parts hold: nothing is ever split at a character.
"""

from __future__ import annotations

import struct
from enum import Enum
from functools import lru_cache
from typing import Final

from bridgehead.storage.engine import Shelf


class Kind(Enum):
    """What a key leads to. The index is written with its batch, and is all that a start reads of it."""

    META = b"m"
    INDEX = b"i"
    BATCH = b"b"
    NOTE = b"n"
    STATE = b"s"

    __hash__ = object.__hash__  # that of Enum is made of Python, and keys are looked up with it


LAST_NUMBER: Final = 2**64 - 1

_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")


@lru_cache(maxsize=4096)
def shelf_key(kind: Kind, shelf: Shelf) -> bytes:
    parts = [part.encode() for part in shelf]
    return b"".join([kind.value, bytes([len(parts)]), *(_LENGTH.pack(len(part)) + part for part in parts)])


def numbered_key(kind: Kind, shelf: Shelf, number: int) -> bytes:
    return shelf_key(kind, shelf) + _NUMBER.pack(number)


def number_of(key: bytes) -> int:
    number: int = _NUMBER.unpack_from(key, len(key) - _NUMBER.size)[0]
    return number


def shelf_of(key: bytes) -> Shelf:
    """The shelf of a key, with a number behind it or without."""
    parts, position = [], 2
    for _ in range(key[1]):
        (length,) = _LENGTH.unpack_from(key, position)
        position += _LENGTH.size
        parts.append(key[position : position + length].decode())
        position += length
    return tuple(parts)
