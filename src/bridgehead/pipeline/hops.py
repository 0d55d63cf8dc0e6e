"""The hop count: how many bridges a message has crossed, in a user property that HiveMQ Edge knows, too.

A bridge that counts lets a message pass unless it has crossed as many bridges as its limit says, and sets the property to one
more. What is no number counts as none; of several the first is read, and one takes the place of all. MQTT 3.1.1 cannot carry
it: what crosses such a connection is taken to have used up its hops, so that no ring of bridges goes round for ever.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import Batch, list_bounds
from bridgehead.wire.properties import BRIDGES_CROSSED

HOP_COUNT: Final = BRIDGES_CROSSED
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,100}")


def below_hops(batch: Batch, limit: int | npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
    """Which rows have crossed fewer bridges than this, or none; None if all have. The limit may be one for each row."""
    properties = batch.column("user_properties")
    first, last = list_bounds(properties)
    if first == last:
        return None
    hops = hop_counts(properties)
    keep: npt.NDArray[np.bool_] = ~((hops > 0) & (hops >= limit))
    return None if keep.all() else keep


def hop_counts(column: pa.Array) -> npt.NDArray[np.int64]:
    """The hop count each row came with: its first hop property, 0 where there is none or it is not a number."""
    hops = np.zeros(len(column), np.int64)
    if len(column) == 0:
        return hops
    offsets = column.offsets.to_numpy().astype(np.int64)
    own = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if len(own) == 0:
        return hops
    at = np.flatnonzero(is_hop(own))
    if len(at) == 0:
        return hops
    rows = np.searchsorted(offsets - offsets[0], at, side="right") - 1
    first = np.unique(rows, return_index=True)[1]
    texts = own.field("value").take(pa.array(at[first])).fill_null("").dictionary_encode()
    numbers = np.array([_number(text) for text in texts.dictionary.to_pylist()], np.int64)
    hops[rows[first]] = numbers[texts.indices.to_numpy()]
    return hops


def is_hop(pairs: pa.StructArray) -> npt.NDArray[np.bool_]:
    """Which of these pairs are hop counts; a transform may make pairs without a key."""
    found: npt.NDArray[np.bool_] = pc.equal(pairs.field("key"), HOP_COUNT).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _number(text: str) -> int:
    """As others read it: decimal digits with or without a sign, within 32 bits."""
    if not _NUMBER.fullmatch(text):
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0
