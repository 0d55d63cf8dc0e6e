"""How old messages are: what is left of their own expiry, and what a route finds too old."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch


def remaining_expiry(batch: Batch, now_us: int) -> npt.NDArray[np.int64] | None:
    """Seconds left of each row's message_expiry, 0 if it is over, -1 where there is none; None if no row has one."""
    column = batch.column("message_expiry")
    if column.null_count == len(column):
        return None
    expiry = column.fill_null(-1).to_numpy(zero_copy_only=False)
    waited = np.maximum(now_us - _received(batch), 0) // 1_000_000
    # An expiry of 0 was over on arrival, one that runs out here is over now: both are 0.
    return np.where(expiry >= 0, np.maximum(expiry - waited, 0), -1)


def older_than(batch: Batch, max_age_us: int, now_us: int) -> npt.NDArray[np.bool_]:
    """Which rows came longer ago than this."""
    old: npt.NDArray[np.bool_] = now_us - _received(batch) > max_age_us
    return old


def _received(batch: Batch) -> npt.NDArray[np.int64]:
    received: npt.NDArray[np.int64] = batch.column("received_at").cast(pa.int64()).to_numpy(zero_copy_only=False)
    return received
