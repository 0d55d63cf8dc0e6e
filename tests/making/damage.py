"""Damage to the files of a store: a bit, a file, the end of a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Harm = Callable[[Path], None]


def flip_bit(path: Path, place: int, bit: int = 4) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def flip_random_bit(path: Path, random: Random) -> int:
    place = random.randrange(path.stat().st_size)
    flip_bit(path, place, random.randrange(8))
    return place


def cut(path: Path, keep: int) -> None:
    with path.open("r+b") as file:
        file.truncate(keep)


def damaged_copy(store: Path, to: Path) -> Path:
    """A copy of its own for each harm."""
    shutil.rmtree(to.parent, ignore_errors=True)
    shutil.copytree(store, to)
    return to
