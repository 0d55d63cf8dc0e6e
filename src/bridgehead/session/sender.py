"""Queued rows as PUBLISH frames on one MQTT session, and acknowledgements as finished rows.

One flow of packet ids, any number of queues (owners). The sender keeps no messages: a queue keeps them until they are done,
and is asked for them again when a resumed session wants them resent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, column_data
from bridgehead.columns.expiry import remaining_expiry
from bridgehead.wire.flow import AWAIT_PUBCOMP, NOBODY, OutboundFlow
from bridgehead.wire.frames import encode_acks, encode_publishes, frame_sizes
from bridgehead.wire.intake import MAX_PACKET
from bridgehead.wire.reason import Reason

Seqs = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint16]
Identifiers = tuple[int, ...]
"""The subscription identifiers of a message."""
RESEND_ROWS: Final = 64
"""What one call sends again at most: a window of large payloads is not copied into a socket's buffer at once."""
PUBACK: Final = 4
PUBREL: Final = 6
PROPERTIES_AT_MOST: Final = 1024
"""What a frame holds beyond its columns, generously: header, lengths, subscription identifiers."""
PROPERTIES_LARGE: Final = 1 << 26
"""Below this many bytes of properties only a payload can make a packet too large for MQTT."""


def _no_identifiers(seq: int) -> Identifiers:
    return ()


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a slice of rows: bytes for the wire, and which rows never go."""

    data: Any
    unacknowledged: Seqs  # sent without an acknowledgement to come: done when the kernel has taken the bytes
    ends: npt.NDArray[np.int64]  # where in data each of these ends
    expired: Seqs
    oversized: Seqs
    ids: Ids  # of the rows with an acknowledgement to come
    exactly_once: Ids  # those of QoS 2 among them


@dataclass(frozen=True, slots=True)
class Finished:
    """Rows of one owner that the peer has answered for good."""

    owner: int
    delivered: Seqs
    refused: Seqs
    reasons: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Answered:
    """What acknowledgements of the peer have changed."""

    replies: bytes  # the PUBREL packets due, in order
    finished: list[Finished]
    received: Ids  # whose PUBREC came for the first time
    freed: Ids


class Sender:
    """The outgoing half of one session. ``window`` is what the peer allows in flight."""

    def __init__(self, version: int, window: int, last_id: int = 65535) -> None:
        self.version = version
        self.flow = OutboundFlow(window, 1, last_id)
        self.max_packet = 0  # the peer's Maximum Packet Size, 0 = no limit
        self._again = _no_ids()  # to be sent again on this connection, in order
        self._sent_again = _no_ids()  # sent again on this connection, and not yet acknowledged when we last looked

    @property
    def room(self) -> int:
        return self.flow.room

    def send(self, owner: int, seqs: Seqs, batch: Batch, now_us: int, subscription_ids: Identifiers = ()) -> Sent:
        """Frames for rows of an owner's queue in rising order; at most ``room`` of them may need an acknowledgement.

        A row whose id was reserved by an earlier life goes out with it and with DUP, and never counts as expired:
        the peer may hold it half-way, and this is what settles it.
        """
        kept = self.flow.kept_ids(owner, seqs)
        batch, seqs, expiry, expired, kept = _without_expired(batch, seqs, now_us, kept)
        qos = batch.column("wire_qos").to_numpy(zero_copy_only=False).astype(np.uint8)
        oversized = seqs[:0]
        if self._may_be_oversized(batch):
            limit = self.max_packet or MAX_PACKET
            fits = frame_sizes(batch, self.version, qos, expiry=expiry, subscription_ids=subscription_ids) <= limit
            if not fits.all():
                oversized = seqs[~fits]
                batch, seqs, qos = batch.filter(pa.array(fits)), seqs[fits], qos[fits]
                expiry = expiry[fits] if expiry is not None else None
                kept = kept[fits] if kept is not None else None
        if not len(seqs):
            return Sent(b"", seqs, seqs, expired, oversized, _no_ids(), _no_ids())
        ids = self.flow.take(owner, seqs, qos, kept)
        again: bool | npt.NDArray[np.uint8] = False if kept is None else (kept > 0).astype(np.uint8)
        frames = encode_publishes(batch, self.version, qos, ids, again, expiry=expiry, subscription_ids=subscription_ids)
        alone = qos == 0
        return Sent(frames.data.data, seqs[alone], frames.ends[alone], expired, oversized, ids[~alone], ids[qos == 2])

    def send_together(self, runs: Sequence[tuple[int, Seqs]], batch: Batch, now_us: int) -> Sent | None:
        """The same for rows of several owners, one behind the other in the batch: what few rows of each cost, all cost once.

        None if some of them need a look of their own: they are done without an acknowledgement, may be expired or too large,
        or have a kept id.
        """
        qos = batch.column("wire_qos").to_numpy(zero_copy_only=False).astype(np.uint8)
        if not qos.all() or self.flow.reserved or self._may_be_oversized(batch) or remaining_expiry(batch, now_us) is not None:
            return None
        ends = accumulate(len(seqs) for _, seqs in runs)
        taken = [self.flow.take(owner, seqs, qos[end - len(seqs) : end]) for (owner, seqs), end in zip(runs, ends, strict=True)]
        ids = np.concatenate(taken)
        frames = encode_publishes(batch, self.version, qos, ids, False)
        nothing = runs[0][1][:0]
        return Sent(frames.data.data, nothing, nothing, nothing, nothing, ids, ids[qos == 2])

    def fitting(self, owner: int, seqs: Seqs, batch: Batch) -> int:
        """How many leading rows there are packet ids for: those that an earlier life has reserved are nobody else's."""
        if self.flow.free >= len(seqs):
            return len(seqs)
        wants = batch.column("wire_qos").to_numpy(zero_copy_only=False) > 0
        kept = self.flow.kept_ids(owner, seqs)
        return leading(np.cumsum(wants if kept is None else wants & (kept == 0)) <= self.flow.free)

    def let_go(self, owner: int, before: int | None, holds: Callable[[Seqs], npt.NDArray[np.bool_]]) -> bytes:
        """Rows with a kept id that were passed over (all of them, or those below ``before``) may be gone: a limit, their size.

        Then their ids are only to be settled: what is to be sent for that.
        """
        if not self.flow.reserved:
            return b""
        ids, owners, seqs, _ = self.flow.reservations()
        passed = owners == owner
        if before is not None:
            passed &= seqs < before
        ids, seqs = ids[passed], seqs[passed]
        order = np.argsort(seqs)
        gone = ids[order][~holds(seqs[order])]
        return self.release(gone) if len(gone) else b""

    def _may_be_oversized(self, batch: Batch) -> bool:
        """Rarely true: a batch that is small as a whole holds no row that is too large for the peer or for MQTT."""
        if self.max_packet:
            return bool(batch.nbytes + PROPERTIES_AT_MOST >= self.max_packet)
        topics, _ = column_data(batch.column("topic"))
        payloads, _ = column_data(batch.column("payload"))
        return bool(
            topics[-1] - topics[0] > 65_535
            or payloads[-1] - payloads[0] > MAX_PACKET - PROPERTIES_LARGE
            or _property_bytes(batch) > PROPERTIES_LARGE
        )

    def acked(self, acks: npt.NDArray[np.int64]) -> tuple[bytes, list[Finished]]:
        """The peer's acknowledgements: bytes due in return, and finished rows by owner."""
        answered = self.answered(acks)
        return answered.replies, answered.finished

    def answered(self, acks: npt.NDArray[np.int64]) -> Answered:
        """The same for those who promise exactly once: they record what was received before the replies leave."""
        result = self.flow.acks(acks, self.version)
        finished = []
        owners = result.done_owner
        for owner in owners[:1] if len(owners) and (owners == owners[0]).all() else np.unique(owners):
            if owner == NOBODY:
                continue
            mine = owners == owner
            reasons = result.done_reason[mine]
            seqs = result.done_seq[mine]
            refused = reasons >= 0x80
            finished.append(Finished(int(owner), seqs[~refused], seqs[refused], reasons[refused]))
        return Answered(result.replies, finished, result.received, result.done_id)

    def in_flight_of(self, owner: int) -> Seqs:
        """The rows of an owner that wait for an acknowledgement, in the order of sending."""
        unacknowledged = self.flow.unacknowledged()
        mine: Seqs = unacknowledged.seq[unacknowledged.owner == owner]
        return mine

    def resume(self) -> None:
        """The peer remembers the session: everything unacknowledged is due again."""
        self._again, self._sent_again = self.flow.unacknowledged().ids, _no_ids()

    @property
    def resending(self) -> bool:
        return len(self._again) > 0

    @property
    def due_again(self) -> int:
        """How many of them."""
        return len(self._again)

    def first_again(self) -> tuple[int, int] | None:
        """Owner and number of the row that is sent again next; None if there is none, or only its PUBREL is due."""
        _, owners, seqs, states = self.flow.among(self._again)
        return (int(owners[0]), int(seqs[0])) if len(seqs) and states[0] != AWAIT_PUBCOMP else None

    def resend(
        self,
        rows_of: Callable[[int, Seqs], Batch],
        now_us: int,
        identifiers_at: Callable[[int], Identifiers] = _no_identifiers,
        before: Mapping[int, int] = MappingProxyType({}),
    ) -> tuple[list[Any], list[Finished]]:
        """Some of what is due again, in the order of the first time: PUBLISH with DUP, PUBREL where PUBREC has come.

        The window of a new connection may be smaller than the one before: as much goes as it allows, the rest when
        acknowledgements have made room. Rows that the peer does not take any more (its largest packet has shrunk) are finished.
        ``identifiers_at`` says by which subscriptions a row came, ``before`` below which number rows of an owner may go now.
        """
        sent, (due, owners, seqs, states) = self.flow.among(self._sent_again).ids, self.flow.among(self._again)
        count = max(min(self.flow.window - len(sent), RESEND_ROWS), 0)
        for owner, first in before.items():
            count = min(count, leading((owners != owner) | (seqs < first) | (states == AWAIT_PUBCOMP)))
        self._sent_again, self._again = np.concatenate((sent, due[:count])), due[count:]
        ids, owners, seqs, states = self.flow.among(due[:count])
        released = states == AWAIT_PUBCOMP
        identifiers = [identifiers_at(seq) for seq in seqs.tolist()]
        others = np.array([one != next_one for one, next_one in pairwise(identifiers)], np.bool_)
        cuts = np.flatnonzero((np.diff(owners) != 0) | (np.diff(released) != 0) | others) + 1
        chunks: list[Any] = []
        finished: list[Finished] = []
        for part in np.split(np.arange(len(ids)), cuts) if len(ids) else ():
            if released[part[0]]:
                chunks.append(encode_acks(PUBREL, ids[part]))
            else:
                batch = rows_of(int(owners[part[0]]), seqs[part])
                again, refused = self._frames_again(batch, ids[part], now_us, identifiers[part[0]])
                chunks += again
                finished += refused
        return chunks, finished

    def _frames_again(
        self, batch: Batch, ids: Ids, now_us: int, subscription_ids: Identifiers
    ) -> tuple[list[Any], list[Finished]]:
        qos = batch.column("wire_qos").to_numpy(zero_copy_only=False).astype(np.uint8)
        # An expired row is resent all the same: its packet id must be settled, and the peer sees what is left: 0.
        expiry = remaining_expiry(batch, now_us)
        chunks: list[Any] = []
        finished: list[Finished] = []
        if self.max_packet and self._may_be_oversized(batch):
            sizes = frame_sizes(batch, self.version, qos, expiry=expiry, subscription_ids=subscription_ids)
            fits = sizes <= self.max_packet
            if not fits.all():
                released, finished = self._give_up(ids[~fits], qos[~fits])
                chunks.append(released)
                batch, ids, qos = batch.filter(pa.array(fits)), ids[fits], qos[fits]
                expiry = expiry[fits] if expiry is not None else None
        if len(ids):
            frames = encode_publishes(batch, self.version, qos, ids, True, expiry=expiry, subscription_ids=subscription_ids)
            chunks.append(frames.data.data)
        return chunks, finished

    def _give_up(self, ids: Ids, qos: npt.NDArray[np.uint8]) -> tuple[bytes, list[Finished]]:
        """Rows in flight that the peer does not take any more. It may hold one of QoS 2 half-way: that id is released first."""
        _, owners, seqs, _ = self.flow.at(ids)
        too_large = np.full(len(ids), Reason.PACKET_TOO_LARGE, np.int16)
        finished = [
            Finished(int(owner), seqs[:0], seqs[owners == owner], too_large[owners == owner]) for owner in np.unique(owners)
        ]
        acknowledged = np.column_stack((np.full(len(ids), PUBACK), ids, too_large)).astype(np.int64)
        self.flow.acks(acknowledged[qos == 1], self.version)
        return self.release(ids[qos == 2]), finished

    def release(self, ids: Ids) -> bytes:
        """The rows of these ids are gone: what is to be sent so that no later message with such an id is taken for them."""
        self.flow.settle(ids)
        return encode_acks(PUBREL, ids)

    def forget(self) -> dict[int, Seqs]:
        """The session is lost: every packet id is free, and these rows of each owner are to be sent as new."""
        self._again = self._sent_again = _no_ids()
        _, owners, seqs, _ = self.flow.clear()
        return {int(owner): seqs[owners == owner] for owner in np.unique(owners) if owner != NOBODY}


def _property_bytes(batch: Batch) -> int:
    """What the user properties of these rows may hold; if the batch is a slice, those of its neighbours count too."""
    pairs = batch.column("user_properties").values
    texts = (pairs.field(part).buffers()[2] for part in (0, 1))
    return sum(text.size for text in texts if text is not None)


def leading(good: npt.NDArray[np.bool_]) -> int:
    """How many are good before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))


def _no_ids() -> Ids:
    return np.zeros(0, np.uint16)


def _without_expired(
    batch: Batch, seqs: Seqs, now_us: int, kept: Ids | None
) -> tuple[Batch, Seqs, npt.NDArray[np.int64] | None, Seqs, Ids | None]:
    expiry = remaining_expiry(batch, now_us)
    if expiry is None:
        return batch, seqs, None, seqs[:0], kept
    alive = expiry != 0
    if kept is not None:
        alive |= kept > 0
    if alive.all():
        return batch, seqs, expiry, seqs[:0], kept
    kept = kept[alive] if kept is not None else None
    return batch.filter(pa.array(alive)), seqs[alive], expiry[alive], seqs[~alive], kept
