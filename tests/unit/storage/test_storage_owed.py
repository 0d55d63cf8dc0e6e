"""What a large write owes RocksDB: it moves in pieces, so that nobody waits for all of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from bridgehead.storage import store as store_module
from bridgehead.storage.keys import Kind, shelf_key
from bridgehead.storage.records import Change
from bridgehead.storage.store import Store
from bridgehead.storage.values import pack_state

NOISE = Random(7)


def state(number: int, size: int) -> Change:
    key = shelf_key(Kind.STATE, (f"state {number}",))
    return key, pack_state(key, NOISE.randbytes(size))


def half_moved(store: Store) -> None:
    """A full old file of which nothing has moved yet, and a write that makes the other one half full."""
    while store._other is not store_module._Other.MOVING:
        store.write([state(store._front.written, 1000)])
    store.flush()
    store.write([state(store._front.written, 60_000)])


def test_a_large_write_moves_a_piece_at_once_and_owes_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else wants the loop waits for a piece, and not for all that a commit of 100,000 rows moves."""
    monkeypatch.setattr(store_module, "PIECE_BYTES", 10_000)
    store = Store(tmp_path / "store", front_bytes=100_000)
    half_moved(store)
    pieces = [len(store._overlay._moving)]
    assert store.owes
    while store.pay():
        pieces.append(len(store._overlay._moving))
    assert all(before - after <= 11 for before, after in pairwise(pieces))
    assert (len(pieces) >= 9, store._overlay.is_moving, store.owes) == (True, False, False)
    store.close(broken=False)


def test_what_is_owed_waits_for_a_sync_and_nobody_asks_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PIECE_BYTES", 10_000)
    store = Store(tmp_path / "store", front_bytes=100_000)
    while store._other is not store_module._Other.MOVING:
        store.write([state(store._front.written, 1000)])
    store.write([state(store._front.written, 60_000)])  # the old file is not safe yet
    assert (store.owes, store.pay(), store._overlay.is_moving) == (True, False, True)
    store.flush()
    assert store.pay()
    store.close(broken=False)


def test_a_full_file_waits_no_longer_for_what_is_owed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else large writes and nothing between them would let it grow."""
    monkeypatch.setattr(store_module, "PIECE_BYTES", 10_000)
    store = Store(tmp_path / "store", front_bytes=100_000)
    half_moved(store)
    store.write([state(store._front.written, 60_000)])
    assert not store._overlay.is_moving
    store.close(broken=False)


def test_whoever_pays_what_is_not_owed_any_more_begins_no_sync_of_rocksdb(tmp_path: Path) -> None:
    """A write may have paid all since it was asked for: a second sync would hide what the first one had to say."""
    store = Store(tmp_path / "store", front_bytes=100_000)
    other, moved = store._other, store._moved
    assert not store.pay()
    assert (store._other, store._moved) == (other, moved)
    store.close(broken=False)
