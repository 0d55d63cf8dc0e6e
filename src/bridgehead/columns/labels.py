"""Labels: which of a few names each row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import CONSTANT_ROWS, constant_label

_ZEROS = np.zeros(CONSTANT_ROWS, np.int32)


@dataclass(frozen=True, slots=True)
class Labels:
    """A name for each row, by its place among ``names``; -1 where there is none."""

    names: tuple[str, ...]
    of_row: npt.NDArray[np.int32]

    @staticmethod
    def one(name: str, rows: int) -> Labels:
        """The same in every row."""
        return Labels((name,), _ZEROS[:rows] if rows <= CONSTANT_ROWS else np.zeros(rows, np.int32))

    @staticmethod
    def of(column: pa.DictionaryArray) -> Labels:
        names = column.dictionary.to_pylist()
        if len(names) == 1 and not column.null_count:
            return Labels.one(names[0], len(column))
        indices = column.indices
        return Labels(tuple(names), (indices.fill_null(-1) if indices.null_count else indices).to_numpy())

    def column(self) -> pa.DictionaryArray:
        if len(self.names) == 1:
            return constant_label(self.names[0], len(self.of_row))
        return pa.DictionaryArray.from_arrays(pa.array(self.of_row), _texts(self.names))

    def short(self) -> Labels:
        """The same without the names that no row has: few rows need not carry the names of many."""
        used, of_row = np.unique(self.of_row, return_inverse=True)
        return Labels(tuple(self.names[at] for at in used), of_row.astype(np.int32))

    def only(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Labels:
        return Labels(self.names, self.of_row[rows])

    def places(self) -> list[tuple[str, npt.NDArray[np.int64]]]:
        """The rows of each name that any row has, in their order."""
        if len(self.names) == 1:
            return [(self.names[0], np.arange(len(self.of_row)))]
        order = np.argsort(self.of_row, kind="stable")
        ends = np.cumsum(np.bincount(self.of_row, minlength=len(self.names))).tolist()
        runs = zip(self.names, [0, *ends], ends, strict=False)
        return [(name, order[first:last]) for name, first, last in runs if first < last]

    def counted(self, which: npt.NDArray[np.bool_] | None = None) -> list[tuple[str, int]]:
        """How many rows each name has that any row has; or how many of the chosen ones."""
        if len(self.names) == 1:
            return [(self.names[0], len(self.of_row) if which is None else int(np.count_nonzero(which)))]
        counts = np.bincount(self.of_row if which is None else self.of_row[which], minlength=len(self.names)).tolist()
        return [(name, count) for name, count in zip(self.names, counts, strict=True) if count]


@lru_cache(maxsize=64)
def _texts(names: tuple[str, ...]) -> pa.StringArray:
    """The routes of a log are the same turn by turn."""
    return pa.array(names, pa.string())


def joined(parts: Sequence[Labels]) -> Labels:
    """The labels of several batches, one behind the other."""
    if len(parts) == 1 or all(part.names == parts[0].names for part in parts):
        return Labels(parts[0].names, np.concatenate([part.of_row for part in parts]))
    numbers: dict[str, int] = {}
    for part in parts:
        for name in part.names:
            numbers.setdefault(name, len(numbers))
    of_row = [np.array([numbers[name] for name in part.names], np.int32)[part.of_row] for part in parts]
    return Labels(tuple(numbers), np.concatenate(of_row))
