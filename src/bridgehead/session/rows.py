"""Scanned rows as a record batch of WIRE form."""

from __future__ import annotations

import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import WIRE
from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_columns import to_columns


def wire_batch(rows: Rows) -> Batch:
    columns = to_columns(rows.rows, rows.arena)
    return pa.RecordBatch.from_arrays([getattr(columns, name) for name in WIRE.names], schema=WIRE)
