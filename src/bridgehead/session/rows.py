"""Scanned rows as a record batch of WIRE form."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import WIRE
from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_columns import to_columns
from bridgehead.wire.kernels_scan import FLAGS, PACKET_ID, QOS_MASK


def unreceive(rows: npt.NDArray[np.int64], inbound: npt.NDArray[np.uint8]) -> None:
    """These rows were not kept: their QoS 2 packet ids count as never received."""
    qos2 = rows[:, FLAGS] & QOS_MASK == 2
    inbound[rows[qos2, PACKET_ID]] = 0


def receive(rows: npt.NDArray[np.int64], inbound: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """These rows are offered again: their QoS 2 packet ids count as received. Returns a range that holds all of these."""
    ids = rows[rows[:, FLAGS] & QOS_MASK == 2, PACKET_ID]
    inbound[ids] = 1
    return (int(ids.min()), int(ids.max()) + 1) if len(ids) else (0, 0)


def wire_batch(rows: Rows) -> Batch:
    columns = to_columns(rows.rows, rows.arena)
    return pa.RecordBatch.from_arrays([getattr(columns, name) for name in WIRE.names], schema=WIRE)
