"""Names in an archive.

    path/date=2026-11-16/part-<key>-<life>-<start>-<end>-<version>-<partition>-<number>.parquet
    path/_pending/<key>/...

The key names query and node, so that several routes and nodes may share a path. The life names the offsets: a node
without a disk counts from 0 again at each start. A batch is known by its range of offsets, and, as a query with a memory
makes rows without taking any in, by a version that rises with each commit. Readers pass over whatever begins with ``_`` or
``.``; pending files do not end in ``.parquet`` either, for those who look by pattern.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final

from bridgehead.pipeline.archive.spec import ArchiveSpec

PENDING: Final = "_pending"
MERGING: Final = "merge-"
"""How the name of a pending file begins that is being made of visible ones."""
SUFFIX: Final = ".parquet"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive, Spark and Arrow write that a partition column has no value."""

MAX_VALUE_BYTES: Final = 180
"""A directory's name may have 255 bytes; a longer value is cut, and a digest of all of it keeps it apart from others."""

_LONGEST_ROUTE: Final = 60
_TOPIC_LEVEL: Final = re.compile(r"topicLevel([1-9][0-9]{0,3})")
_TO_ESCAPE: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")


def key_of(spec: ArchiveSpec) -> str:
    """Names the files of this archive among those of others: readable, short, and never the same for two of them."""
    canonical = json.dumps([spec.node, spec.route], separators=(",", ":"))
    return f"{spec.route[:_LONGEST_ROUTE]}-{hashlib.sha256(canonical.encode()).hexdigest()[:12]}"


def own_prefix(key: str) -> str:
    """How the names of all visible files of an archive begin. Never with ``_`` or ``.``, whatever a bridge is called."""
    return f"part-{key}-"


def visible_name(key: str, life: str, start: int, end: int, version: int, partition: int, number: int) -> str:
    """The name says query, batch and partition; names of one life sort as its rows do."""
    return f"{own_prefix(key)}{life}-{start:015d}-{end:015d}-{version}-{partition:05d}-{number:05d}{SUFFIX}"


def merged_name(first: str, token: str) -> str:
    """The name of a file made of several: it sorts where the first of them did."""
    return f"{first.removesuffix(SUFFIX).partition('~')[0]}~{token}{SUFFIX}"


def topic_level(column: str) -> int | None:
    """Which level of the topic a partition column names, counted from 1."""
    found = _TOPIC_LEVEL.fullmatch(column)
    return int(found[1]) if found else None


def segment(column: str, value: str | None) -> str:
    """One directory's name: ``column=value``."""
    return f"{column}={escaped(value) if value else NO_VALUE}"


def escaped(value: str) -> str:
    """As Hive and Spark do: what means something in a path becomes %XX, and is understood by those who read."""
    whole = _TO_ESCAPE.sub(_percent, value)
    if len(whole.encode()) <= MAX_VALUE_BYTES:
        return whole
    digest = hashlib.sha256(value.encode()).hexdigest()[:16]
    start = ""
    for character in value:
        longer = start + _TO_ESCAPE.sub(_percent, character)
        if len(longer.encode()) > MAX_VALUE_BYTES - len(digest) - 1:
            break
        start = longer
    return f"{start}~{digest}"


def _percent(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
