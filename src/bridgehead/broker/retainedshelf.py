"""Retained messages on the disk: those of QoS 1 and 2. What is retained at QoS 0 ends with the process.

On the shelf ("retained",) a batch under the number of its first row; a note under the number of a row says that it is gone,
because its topic has another message or none. A batch all of whose rows are gone leaves, and its notes with it. All of this is
part of the write that brings the message: what was acknowledged is what a restart finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.storage.engine import Changes, Engine, Shelf

SHELF: Final[Shelf] = ("retained",)
GONE: Final = 1


@dataclass(slots=True, eq=False)
class Kept:
    """Rows that were kept together."""

    batch: Batch
    live: int  # rows that are the message of their topic
    number: int | None = None  # of its first row on the disk; None if it is not there
    gone: list[int] = field(default_factory=list)  # the notes


class RetainedShelf:
    """Writes nothing where nothing outlives the process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0  # the number the next row gets

    def found(self) -> Iterator[tuple[Kept, list[int]]]:
        """What an earlier life has left: batches, and which of their rows count."""
        if not self._engine.durable:
            return
        gone = {number for number, _ in self._engine.notes(SHELF)}
        for number, shape in self._engine.shapes(SHELF):
            numbers = range(number, number + shape.rows)
            kept = Kept(self._engine.read(SHELF, number), 0, number, [each for each in numbers if each in gone])
            rows = [each - number for each in numbers if each not in gone]
            kept.live = len(rows)
            gone.difference_update(kept.gone)
            self._next = number + shape.rows
            yield kept, rows
        # Damage may have taken a batch and left its notes.
        self._engine.write(Changes(notes=[(SHELF, number, None) for number in gone]))

    def keep(self, changes: Changes, rows: Batch) -> Iterator[Kept]:
        """These rows, those for the disk apart from the others."""
        if not self._engine.durable:
            yield Kept(rows, rows.num_rows)
            return
        safe = rows.column("qos").to_numpy(zero_copy_only=False) > 0
        for number, part in ((None, ~safe), (self._next, safe)):
            if part.any():
                batch = rows if part.all() else rows.take(pa.array(np.flatnonzero(part)))
                if number is not None:
                    changes.puts.append((SHELF, number, batch))
                    self._next += batch.num_rows
                yield Kept(batch, batch.num_rows, number)

    def leave(self, changes: Changes, kept: Kept, row: int) -> None:
        """This row is not the message of its topic any more."""
        kept.live -= 1
        if kept.number is None:
            return
        if kept.live:
            kept.gone.append(kept.number + row)
            changes.notes.append((SHELF, kept.number + row, GONE))
        else:
            changes.notes += [(SHELF, number, None) for number in kept.gone]
            changes.drops.append((SHELF, kept.number))
