"""The consumer: what the remote broker sends goes into the journal of its pull routes, and is acknowledged when it is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.bridge.echoes import EchoWindow
from bridgehead.bridge.levelling import Levels, deletions
from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch
from bridgehead.link.gathering import Answers, Gathering, Source
from bridgehead.link.heldrows import HeldRows, only_completions
from bridgehead.pipeline.admission import DISK, DROPPED, HELD, Verdict, guarded, judge
from bridgehead.pipeline.door import Arrived, Door, timestamps
from bridgehead.pipeline.doorways import Doorways
from bridgehead.pipeline.plans import TopicPlans
from bridgehead.session.rows import receive, unreceive, wire_batch
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.inboundids import InboundIds
from bridgehead.storage.journal import Journal, Log
from bridgehead.wire.fields import Reader, write_varint
from bridgehead.wire.filtersets import alone
from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_scan import FLAGS, PROPS_LEN, PROPS_START, QOS_MASK
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import decode_properties
from bridgehead.wire.topicnames import matches

HELD_BYTES: Final = 16 * 1024 * 1024
"""What a bridge holds back of what its remote sends while there is no room, and a turn more. What comes behind it is passed by:
not acknowledged, it comes again on the next connection. This one stays for as long as there is no room, because on it come the
acknowledgements for what we push, and they are what makes room."""


@dataclass(frozen=True, slots=True)
class _Wanting:
    doors: tuple[Door, ...]
    stored: bool  # a route of them wants what is stored at the remote
    copies_by: frozenset[int]  # what came by these subscriptions alone came by an earlier one as well, whose copy counts


class Consumer:
    """Matches each message against the bridge's own pull filters: once per route, whatever the remote's overlaps do."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        doors: list[Door],
        client_id: str,
        identified: tuple[str, ...],
        *,
        bridge: str,
        drop_retained: bool,
        space: FreeSpace | None = None,
        stored: frozenset[str] = frozenset(),
        levelled: frozenset[str] = frozenset(),
    ) -> None:
        """``stored``: the routes that want what is stored at the remote; ``levelled``: those of them that are kept level."""
        self.gathering: Gathering[Source] = Gathering(engine, self._accept)
        self._engine = engine
        # Ids of one client id: what another one has received says nothing about the messages for this one.
        self.inbound = InboundIds(engine, ("inbound", "uplink", bridge, client_id))
        self._journal = journal
        self._doors = doors
        self._client = pa.array([client_id], pa.string())
        self._identified = identified  # filters that overlap, in the order of their subscription identifiers from 1 on
        self._drop_retained = drop_retained
        self._stored = stored
        self.levels = Levels(engine, levelled)
        self.takes_stored = True  # False: subscriptions that were made before bring nothing new
        self.flag_means_stored = True  # the remote flags no message but stored ones
        self.flagged = 0  # messages with the retain flag
        self.echoes: EchoWindow | None = None  # where the remote may send back what we sent
        self.echoes_skipped = 0
        self._plans: TopicPlans[_Wanting] = TopicPlans(self._wanting)
        self._doorways = Doorways()
        self._space = space
        self._guarded = any(door.room is not None for door in doors)
        self._held: tuple[Source, HeldRows] | None = None  # what has no room yet, and who is owed its acknowledgements
        self._offer_due = False
        self._offering = False  # right now, what is held
        self._passing_by = False  # what comes on this connection
        self.held_lost = 0  # messages of QoS 0 behind held ones when the connection ended, or that were passed by
        self.received = 0
        self.unmatched = 0
        self.retained_skipped = 0
        self.copies_skipped = 0
        self.deleted = 0  # retained messages here whose stored one at the remote was gone

    @property
    def full(self) -> bool:
        """The journal takes no more than what is on its way: whoever brings messages waits."""
        return self._journal.full

    @property
    def has_passed_by(self) -> bool:
        """What was held is in and what came behind it is not: there is room, and on a new connection it comes again."""
        return self._passing_by and self._held is None

    def follow(self, before: Consumer) -> None:
        """Go on where another one of this bridge has ended: its counts, and what it knows of the ids of the same client id."""
        if before._client.equals(self._client):
            self.inbound = before.inbound
        for name in ("received", "unmatched", "retained_skipped", "copies_skipped", "held_lost", "echoes_skipped"):
            setattr(self, name, getattr(before, name))

    def doors_changed(self) -> None:
        """Doors lead elsewhere than before."""
        self._plans.invalidate()
        self._guarded = any(door.room is not None for door in self._doors)

    def room_again(self) -> None:
        """There may be room for what is held back."""
        if self._held is not None and not self._offer_due:
            self._offer_due = True
            asyncio.get_running_loop().call_soon(self._offer)

    def _offer(self) -> None:
        """What has been gathered meanwhile goes first, behind what is held: its ids are marked since it was scanned, and must
        not be on the disk without it, which they would be with the pages that this writes."""
        self._offer_due = False
        if self._held is not None:
            self.gathering.flush()
        if self._held is not None:
            source, held = self._held
            self._held = None
            self.inbound.changed(*receive(held.rows.rows, self.inbound.marks))
            self._offering = True
            self.gathering.offer(held.rows, [(source, held.replies)])
            self._offering = False

    def forget_held(self) -> None:
        """The connection is gone: what was held had no acknowledgement, and comes again if it was of QoS 1 or 2."""
        if self._held is not None:
            self.held_lost += int(np.count_nonzero(_qos(self._held[1].rows) == 0))
            self._held = None
        self._passing_by = False

    def session_lost(self, then: Callable[[], None]) -> None:
        """The remote starts anew, with the first id again: what we know of ids is forgotten, and only then ``then`` comes."""
        changes = Changes()
        self.inbound.forget(changes)
        if changes.state:
            self._engine.write(changes)
            self._engine.when_synced(then)
        else:
            then()

    def _wanting(self, topic: str) -> _Wanting:
        by = [at for at, each in enumerate(self._identified, 1) if alone(each) and matches(each, topic)]
        doors = tuple(door for door in self._doors if door.filters_match(topic))
        return _Wanting(doors, any(door.rule.route in self._stored for door in doors), frozenset(by[1:]))

    def _judge(self, rows: Rows) -> Verdict | None:
        """What gets in; None stands for all. What follows something held back is held back as well, in order."""
        low = self._space is not None and not self._space.coming(len(rows.arena))
        if not (low or self._guarded or self._held is not None) or not len(rows.rows):
            return None
        batch, qos = wire_batch(rows), _qos(rows)
        short = guarded([(plan.doors, chosen) for plan, chosen in self._plans.groups(batch.column("topic"))], batch)
        if not (low or short or self._held is not None):
            return None
        verdict = Verdict(np.zeros(len(qos), np.int64), np.where(qos > 0, HELD, DROPPED).astype(np.uint8))
        if self._held is not None:
            verdict.hold(0, 0, None)
        if low:
            verdict.keep_out(np.flatnonzero((qos > 0) & verdict.admitted), DISK)
        judge(verdict, short, batch, self._clients(batch.num_rows))
        for guard, out in verdict.refused(DROPPED):
            if isinstance(guard, Door):
                guard.turn_away(len(out), told=False)
        return verdict

    def _hold_back(self, verdict: Verdict, rows: Rows, source: Source) -> Answers[Source]:
        chosen = verdict.held_rows(0)
        more = rows.only(chosen)
        unreceive(more.rows, self.inbound.marks)  # as long as they are only here, they have not come
        if self._held is None:
            self._held = source, HeldRows(more, verdict.held[0][1])
        else:
            self._held[1].follow(more)
        self._passing_by |= self._held[1].size > HELD_BYTES
        return {source: partial(self._held[1].keep_replies, own=rows.rows, admitted=len(rows.rows) - len(chosen))}

    def _pass_by(self, rows: Rows) -> None:
        unreceive(rows.rows, self.inbound.marks)
        self.held_lost += int(np.count_nonzero(_qos(rows) == 0))

    def _accept(self, rows: Rows, sources: list[Source]) -> Answers[Source] | None:
        """What came, and the QoS 2 ids it came with, in one write."""
        answers: Answers[Source] | None = None
        verdict = None
        if self._passing_by and not self._offering:
            self._pass_by(rows)
            rows, answers = rows.only(np.zeros(0, np.int64)), dict.fromkeys(sources, only_completions)
        else:
            verdict = self._judge(rows)
        if verdict is not None:
            if verdict.held:
                answers = self._hold_back(verdict, rows, sources[0])
            rows = Rows(rows.rows[verdict.admitted], rows.arena)
        changes = Changes()
        try:
            if len(rows.rows):
                self._admit(changes, rows)
            self.inbound.write(changes)
        finally:  # whatever a log has given an offset is written, else it could not be read
            if changes.puts or changes.state:
                self._engine.write(changes)
                ends = [(log, log.end) for log in {door.log for door in self._doors}]
                self._engine.when_synced(lambda: _publish(ends))
        return answers

    def _admit(self, changes: Changes, rows: Rows) -> None:
        batch = wire_batch(rows)
        self.received += batch.num_rows
        flagged = batch.column("retain").true_count
        self.flagged += flagged
        if flagged and self._drop_retained and self.flag_means_stored:
            batch = self._without_stored(batch)
            if batch.num_rows == 0:
                return
        echoes = None if self.echoes is None else self.echoes.echoes(batch)
        if echoes is not None:
            self.echoes_skipped += int(np.count_nonzero(echoes))
            batch = batch.filter(pa.array(~echoes))
            if batch.num_rows == 0:
                return
        times = timestamps(now_us(), batch.num_rows)
        clients = self._clients(batch.num_rows)
        numbers = self._plans.look_up(batch.column("topic"))
        plans = self._plans.known
        if flagged and self.levels:
            self._level(changes, batch, numbers)
        copies = np.zeros(len(numbers), np.bool_)
        for number in np.unique(numbers) if (numbers != numbers[0]).any() else numbers[:1]:
            plan = plans[number]
            if plan.copies_by or not plan.doors:
                mine = np.flatnonzero(numbers == number)
                if plan.copies_by:
                    copies[self._copies(rows, plan.copies_by, mine)] = True
                if not plan.doors:
                    self.unmatched += len(mine) - int(np.count_nonzero(copies[mine]))
        self._doorways.admit(changes, Arrived(batch, clients, times), plans, numbers, copies)

    def _clients(self, rows: int) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), self._client)

    def _without_stored(self, batch: Batch) -> Batch:
        """MQTT 3.1.1 has no way to ask for no stored messages when subscribing: they are told by their flag."""
        kept = ~batch.column("retain").to_numpy(zero_copy_only=False)
        if self.takes_stored and self._stored:
            numbers = self._plans.look_up(batch.column("topic"))
            kept |= np.array([plan.stored for plan in self._plans.known])[numbers]
        self.retained_skipped += int(np.count_nonzero(~kept))
        return batch.filter(pa.array(kept))

    def _level(self, changes: Changes, batch: Batch, numbers: npt.NDArray[np.int32]) -> None:
        """Remember what is retained here because the remote has it."""
        flagged = batch.column("retain").to_numpy(zero_copy_only=False)
        for number in np.unique(numbers[flagged]):
            mine = batch.filter(pa.array(flagged & (numbers == number)))
            for door in self._plans.known[number].doors:
                if door.rule.route in self.levels:
                    self.levels.came(changes, door.rule.route, mine)

    def end_level(self) -> None:
        """The remote has sent all that is stored there: what is retained here and is not there any more is deleted."""
        if self._held is not None or self._passing_by:
            self.levels.end()  # there may be more of it than we have room for: at the next connection
            return
        changes = Changes()
        doors = {door.rule.route: door for door in self._doors}
        for route, topics in self.levels.end().items():
            gone = deletions(topics)
            clients = self._clients(len(topics))
            self.levels.came(changes, route, gone)
            doors[route].admit(changes, gone, clients, timestamps(now_us(), len(topics)))
            self.deleted += len(topics)
        if changes.state:
            self._engine.write(changes)
            ends = [(log, log.end) for log in {door.log for door in self._doors}]
            self._engine.when_synced(lambda: _publish(ends))

    def _copies(self, rows: Rows, by: frozenset[int], chosen: npt.NDArray[np.int64]) -> list[int]:
        """Those that came by these subscriptions alone; none, if the remote names none."""
        copies = [row for row in chosen.tolist() if (came_by := _identifiers(rows, row)) and by.issuperset(came_by)]
        self.copies_skipped += len(copies)
        return copies


def _qos(rows: Rows) -> npt.NDArray[np.int64]:
    return rows.rows[:, FLAGS] & QOS_MASK


def _identifiers(rows: Rows, row: int) -> list[int]:
    start, size = (int(rows.rows[row, column]) for column in (PROPS_START, PROPS_LEN))
    section = write_varint(size) + rows.arena[start : start + size].tobytes()
    found = decode_properties(Reader(section), PacketType.PUBLISH).get("subscription_identifier", [])
    assert isinstance(found, list)
    return found


def _publish(ends: list[tuple[Log, int]]) -> None:
    for log, end in ends:
        log.publish(end)
