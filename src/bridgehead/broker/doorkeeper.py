"""The doorkeeper: when there is no room, it keeps messages of clients out, before anybody has them.

MQTT 5 is told: 0x97 in the place of the acknowledgement, and a QoS 2 id counts as never received. MQTT 3.1.1 is held back:
nothing is read from that client any more, what it had sent stays here in order, and is offered again when there may be room.
QoS 0 is dropped and counted; where only the disk lacks space it gets in, because it never gets to the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.broker.connection import Connection
from bridgehead.columns.batches import Batch
from bridgehead.link.gathering import Answers, Gathering
from bridgehead.link.heldrows import HeldRows
from bridgehead.pipeline.admission import DISK, DROPPED, HELD, TOLD, Guard, Verdict, judge
from bridgehead.pipeline.door import Door
from bridgehead.storage.freespace import FreeSpace
from bridgehead.wire.intake import Rows, refused_replies
from bridgehead.wire.kernels_scan import CONN, FLAGS, PACKET_ID, QOS_MASK
from bridgehead.wire.reason import Reason

Wanted = dict[Door, npt.NDArray[np.int64]]


class Doorkeeper:
    """Knows who is held back, with what, and why."""

    def __init__(
        self,
        short: Callable[[Batch], Wanted],
        gathering: Gathering[Connection],
        read_on: Callable[[Connection], None],
        space: FreeSpace | None,
    ) -> None:
        self._short = short
        self._gathering = gathering
        self._read_on = read_on
        self._space = space
        self._held: dict[Connection, HeldRows] = {}  # in the order in which they are served
        self._due = False  # there may be room for some of them
        self.lost = 0  # messages of QoS 0 behind held ones whose client went away

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._held

    def __len__(self) -> int:
        return len(self._held)

    # -- a turn -------------------------------------------------------------------------------------------------------

    def judge(self, batch: Batch, clients: pa.Array, rows: Rows, sources: list[Connection]) -> Verdict | None:
        """Who gets in; None stands for all."""
        low = self._space is not None and not self._space.coming(len(rows.arena))
        behind = [source for source in dict.fromkeys(sources) if source in self._held] if self._held else []
        short = self._short(batch)
        if not (low or behind or short):
            return None
        conns, qos = rows.rows[:, CONN], rows.rows[:, FLAGS] & QOS_MASK
        tellable = [source.number for source in sources if source.version == 5]
        manners = np.where(np.isin(conns, tellable), TOLD, HELD).astype(np.uint8)
        manners[qos == 0] = DROPPED
        verdict = Verdict(conns, manners)
        for source in behind:
            own = np.flatnonzero(conns == source.number)
            if len(own):
                verdict.hold(source.number, int(own[0]), None)
        if low:
            verdict.keep_out(np.flatnonzero((qos > 0) & verdict.admitted), DISK)
        judge(verdict, short, batch, clients)
        return verdict

    def disk_is_low(self, batch: Batch) -> bool:
        """Whether these rows, which no client has sent, need space that is not there."""
        return self._space is not None and not self._space.coming(batch.nbytes)

    def carry_out(self, verdict: Verdict, rows: Rows, sources: list[Connection]) -> Answers[Connection]:
        """Count and hold back; returns how the answers to clients change."""
        count_out(verdict, self._space)
        told = np.concatenate([np.zeros(0, np.int64), *(out for _, out in verdict.refused(TOLD))])
        answers: dict[Connection, Callable[[bytes], bytes]] = {}
        for source in dict.fromkeys(sources):
            refused = rows.rows[told[verdict.conns[told] == source.number]]
            if len(refused):
                source.not_received(Rows(refused, rows.arena))
                reasons = dict.fromkeys(refused[:, PACKET_ID].tolist(), int(Reason.QUOTA_EXCEEDED))
                answers[source] = partial(refused_replies, version=5, reasons=reasons)
            elif source.number in verdict.held:
                answers[source] = self._hold_back(source, verdict, rows)
        return answers

    def _hold_back(self, source: Connection, verdict: Verdict, rows: Rows) -> Callable[[bytes], bytes]:
        chosen = verdict.held_rows(source.number)
        _, guard = verdict.held[source.number]
        more = rows.only(chosen)
        source.not_received(more)  # as long as they are only here, they have not come
        held = self._held.get(source)
        if held is None:
            held = self._held[source] = HeldRows(more, guard)
        else:
            held.follow(more)
        source.link.pause_reading()
        own = rows.rows[verdict.conns == source.number]
        return partial(held.keep_replies, own=own, admitted=len(own) - len(chosen))

    # -- room again ---------------------------------------------------------------------------------------------------

    def room_again(self) -> None:
        """There may be room for those who are held back."""
        if self._held and not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """First the turn ends that is being gathered: ids of its messages are marked since they were scanned, and a write that
        has the marks and not the messages would lose them in a crash."""
        self._gathering.flush()
        self.offer_if_due()

    def offer_if_due(self, busy: Collection[Connection] = ()) -> None:
        """Offer what is held, first come, first served; who still finds no room keeps its place, and so do all behind it
        that wait for the same. Who is ``busy`` in a turn that is not over yet has its turn later."""
        if not self._due:
            return
        self._due = any(connection in self._held for connection in busy)
        waiting, self._held = self._held, {}
        full: set[object] = set()
        for connection, held in waiting.items():
            if connection.closing:
                continue
            if held.why in full or connection in busy:
                self._held[connection] = held
                continue
            connection.received_again(held.rows)
            self._gathering.offer(held.rows, [(connection, held.replies)])
            if connection in self._held:
                full.add(self._held[connection].why)
            else:
                self._read_on(connection)

    def forget(self, connection: Connection) -> None:
        """This client is gone: what was held had no acknowledgement, and comes again if it was of QoS 1 or 2."""
        held = self._held.pop(connection, None)
        if held is not None:
            self.lost += int(np.count_nonzero(held.rows.rows[:, FLAGS] & QOS_MASK == 0))


def verdict_from_within(batch: Batch, *, waits: bool) -> Verdict:
    """Rows that no client has sent: of one sender that waits, or that nobody waits for."""
    qos = batch.column("qos").to_numpy(zero_copy_only=False)
    return Verdict(np.zeros(len(qos), np.int64), np.where((qos > 0) & waits, HELD, DROPPED).astype(np.uint8))


def count_out(verdict: Verdict, space: FreeSpace | None = None) -> None:
    """Every message that was kept out is counted where it was kept out; those held back have only not come yet."""
    for manner in (TOLD, DROPPED):
        for guard, out in verdict.refused(manner):
            _count(guard, len(out), told=manner == TOLD, space=space)


def _count(guard: Guard, rows: int, *, told: bool, space: FreeSpace | None) -> None:
    if isinstance(guard, Door):
        guard.turn_away(rows, told=told)
    elif space is not None:
        space.refused += rows
