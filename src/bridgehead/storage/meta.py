"""What a store says about itself: the format of its keys and values, and the life that its offsets belong to."""

from __future__ import annotations

import secrets
import struct
from pathlib import Path
from typing import Final

from rocksdict import Rdict, WriteBatch

from bridgehead.errors import DamageError, StartError
from bridgehead.storage.keys import Kind, shelf_key
from bridgehead.storage.scanning import reading_failed, scan
from bridgehead.storage.values import FORMAT, seal, unseal

FORMAT_KEY: Final = shelf_key(Kind.META, ("format",))
INCARNATION_KEY: Final = shelf_key(Kind.META, ("incarnation",))
FRONT_KEY: Final = shelf_key(Kind.META, ("front",))

_FRONT = struct.Struct(">QQ")  # the life of the front log, and the first of its records that the tables do not have


def check_format(found: bytes | None, directory: Path) -> None:
    if found is not None and found != str(FORMAT).encode():
        raise StartError(f"{directory} has the format {found.decode(errors='replace')}, this version knows only {FORMAT}")


def must_know_format(db: Rdict, directory: Path) -> bool:
    """Whether the store says its format, which is ours then."""
    try:
        found = db.get(FORMAT_KEY)
    except Exception as error:
        raise reading_failed(error) from None
    check_format(found, directory)
    return found is not None


def must_be_ours(db: Rdict, directory: Path) -> bool:
    """Whether the store says its format, which is ours then; one that does not must be new, with nothing in it."""
    known = must_know_format(db, directory)
    if not known and next(scan(db, b""), None) is not None:
        raise StartError(f"{directory} holds data of something else")
    return known


def write_meta(db: Rdict, incarnation: str) -> None:
    batch = WriteBatch(raw_mode=True)
    batch.put(INCARNATION_KEY, seal(INCARNATION_KEY, incarnation.encode()))
    batch.put(FORMAT_KEY, str(FORMAT).encode())
    db.write(batch)
    db.flush_wal(True)


def pack_front(life: int, first: int) -> bytes:
    return seal(FRONT_KEY, _FRONT.pack(life, first))


def front_of(db: Rdict) -> tuple[int, int] | None:
    """The life of the front log that belongs to this store, and where it begins; None: everything is in the tables."""
    try:
        stored = db.get(FRONT_KEY)
    except Exception as error:
        raise reading_failed(error) from None
    if stored is None:
        return None
    life, first = _FRONT.unpack(unseal(FRONT_KEY, stored, "the place of the front log"))
    return life, first


def incarnation_of(db: Rdict, directory: Path) -> str:
    """The incarnation of the offsets in this store, which must be ours; a new store gets one."""
    if not must_be_ours(db, directory):
        incarnation = secrets.token_hex(8)
        write_meta(db, incarnation)
        return incarnation
    try:
        stored = db.get(INCARNATION_KEY)
    except Exception as error:
        raise reading_failed(error) from None
    if stored is None:
        raise DamageError("it does not say which life its offsets belong to")
    return bytes(unseal(INCARNATION_KEY, stored, "the incarnation")).decode()
