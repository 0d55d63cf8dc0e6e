"""The other end of a pull route: its outbox rows are published in the local broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch
from bridgehead.columns.expiry import older_than, remaining_expiry
from bridgehead.columns.schema import WIRE
from bridgehead.storage.engine import Changes
from bridgehead.storage.outbox import TOO_OLD, Outbox

TURN_ROWS: Final = 8192


class LocalPublisher:
    """Takes rows whenever there are any. ``publish`` makes one write of what the local broker does with them and what it
    is given to do with it: that so many of them, up to the first that has no room yet, leave the outbox.
    """

    def __init__(
        self, outbox: Outbox, publish: Callable[[Batch, Callable[[Changes, int, int], None]], int], max_age: float | None = None
    ) -> None:
        self._outbox = outbox
        self._max_age_us = None if max_age is None else round(max_age * 1_000_000)
        self._publish = publish
        self.unheard = 0  # messages that nobody had subscribed to when they were published
        self._due = False
        self._blocked = False  # the next row has no room in a route of the local broker
        self._stopped = False
        outbox.on_waiting = self.wake

    def stop(self) -> None:
        """What waits, waits for whoever comes next."""
        self._stopped = True
        self._outbox.on_waiting = lambda: None

    def wake(self) -> None:
        if not self._due and not self._blocked:
            self._due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def room_again(self) -> None:
        if self._blocked:
            self._blocked = False
            self.wake()

    def _turn(self) -> None:
        self._due = False
        if self._stopped:
            return
        polled = self._outbox.poll(TURN_ROWS)
        if polled is None:
            return
        seqs, batch = polled.seqs, polled.batch
        if self._max_age_us is not None:
            old = older_than(batch, self._max_age_us, now_us())
            self._outbox.drop(seqs[old], TOO_OLD)
            batch, seqs = batch.filter(pa.array(~old)), seqs[~old]
        expiry = remaining_expiry(batch, now_us())
        if expiry is not None:
            over = expiry == 0
            self._outbox.drop(seqs[over], "expired")
            batch, expiry, seqs = batch.filter(pa.array(~over)), expiry[~over], seqs[~over]
        if len(seqs):

            def taken(changes: Changes, rows: int, unheard: int) -> None:
                self._outbox.acknowledge(seqs[:rows], changes)
                self.unheard += unheard

            done = self._publish(_wire_rows(batch, expiry), taken)
            self._blocked = done < len(seqs)
            self._outbox.reset(seqs[done:])
        self.wake()


def _wire_rows(batch: Batch, expiry: npt.NDArray[np.int64] | None) -> Batch:
    columns = {name: batch.column(name) for name in WIRE.names}
    columns["qos"] = batch.column("wire_qos")
    if expiry is not None:
        columns["message_expiry"] = pa.array(expiry, mask=expiry < 0)
    return pa.RecordBatch.from_arrays([columns[name] for name in WIRE.names], schema=WIRE)
