"""Sizes in bytes as people write them: ``256MiB``, ``1GiB``, or a plain number."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"\s*([0-9]{1,19})\s*([A-Za-z]*)\s*")


def parse_size(value: object) -> int:
    """The number of bytes; only binary units, so that nobody has to guess what a ``MB`` is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError("must be a size in bytes: a whole number, or one with KiB, MiB, GiB or TiB")
    return int(match[1]) * _UNITS[match[2]]
