"""Rows on their way into an embedded journal and out of it again.

The storage engine keeps rows of QoS 0 in memory only. A source that Spark replays must give the same rows twice, so here
every row is kept: the journal stores a QoS one above the message's own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import Batch, constant
from bridgehead.columns.schema import MESSAGE, STORED
from bridgehead.pipeline.door import Door
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import PARTITION


class KeepingDoor(Door):
    """The way into the journal, for whatever the broker sends."""

    def admit(self, changes: Changes, batch: Batch, clients: pa.DictionaryArray, received_at: pa.Array) -> int:
        kept = pc.add(batch.column("qos"), pa.scalar(1, pa.int32()))
        at = batch.schema.get_field_index("qos")
        return super().admit(changes, batch.set_column(at, batch.schema.field(at), kept), clients, received_at)


def message_rows(stored: Batch, first_offset: int) -> Batch:
    """STORED rows as the message table. No node, no bridge and no route stand behind them."""
    rows = stored.num_rows
    columns = {name: stored.column(name) for name in STORED.names}
    columns["qos"] = pc.subtract(columns["qos"], pa.scalar(1, pa.int32()))
    columns["client_id"] = columns["client_id"].dictionary_decode()
    for unknown in ("route", "bridge", "node"):
        columns[unknown] = pa.nulls(rows, pa.string())
    columns["journal_partition"] = constant(PARTITION, pa.int32(), rows)
    columns["journal_offset"] = pa.array(np.arange(first_offset, first_offset + rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGE.names], schema=MESSAGE)
