"""Labels: which of a few names each row has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import constant_label


@dataclass(frozen=True, slots=True)
class Labels:
    """A name for each row, by its place among ``names``; -1 where there is none."""

    names: tuple[str, ...]
    of_row: npt.NDArray[np.int32]

    @staticmethod
    def one(name: str, rows: int) -> Labels:
        """The same in every row."""
        return Labels((name,), np.broadcast_to(np.int32(0), rows))

    @staticmethod
    def of(column: pa.DictionaryArray) -> Labels:
        indices = column.indices
        if indices.null_count:
            indices = indices.fill_null(-1)
        return Labels(tuple(column.dictionary.to_pylist()), indices.to_numpy())

    def column(self) -> pa.DictionaryArray:
        if len(self.names) == 1:
            return constant_label(self.names[0], len(self.of_row))
        return pa.DictionaryArray.from_arrays(pa.array(self.of_row), pa.array(self.names, pa.string()))

    def short(self) -> Labels:
        """The same without the names that no row has: few rows need not carry the names of many."""
        used, of_row = np.unique(self.of_row, return_inverse=True)
        return Labels(tuple(self.names[at] for at in used), of_row.astype(np.int32))

    def counted(self, which: npt.NDArray[np.bool_] | None = None) -> list[tuple[str, int]]:
        """How many rows each name has that any row has; or how many of the chosen ones."""
        if len(self.names) == 1:
            return [(self.names[0], len(self.of_row) if which is None else int(np.count_nonzero(which)))]
        counts = np.bincount(self.of_row if which is None else self.of_row[which], minlength=len(self.names)).tolist()
        return [(name, count) for name, count in zip(self.names, counts, strict=True) if count]
