"""Rows that a transform has made: completed, put through the rules of their route, and looked at before they are staged.

A transform returns at least topic and payload. What it leaves out takes its default: QoS 1 (within what persist leaves), the
time of now, a hop count that no row of its batch exceeds. What it makes may be no message at all; such a row fails its batch
or becomes a dead letter, as the transform's ``onError`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead import clock
from bridgehead.columns.batches import Batch
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import OUTBOX, TIMESTAMP
from bridgehead.errors import TransformError
from bridgehead.pipeline.client import node_client
from bridgehead.pipeline.destination import NO_TOPIC
from bridgehead.pipeline.rules import RouteRules, apply, as_it_came, with_ids
from bridgehead.pipeline.task import MANIFEST, Stager, task_name
from bridgehead.storage.deadletters import NO_DESTINATION, TRANSFORM

LONGEST: Final = 65_535
"""Bytes of the longest text or binary value that MQTT can carry beside a payload."""

OFFSET: Final = "journal_offset"
CLIENT: Final = "client_id"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StageMade:
    """The function given to mapInArrow behind a transform; plain values, so that it travels."""

    address: str
    epoch: int
    log: str
    rules: RouteRules
    batch: str  # names the batch within all batches that this log ever had
    hops: int  # the highest hop count of what the batch took in
    qos_cap: int  # the highest QoS that a row may have
    dead_letters: bool  # what becomes of a row that is no message; else it fails the batch

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        task = task_name()
        stager = Stager(node_client(self.address, self.epoch), self.log, str(task))
        ids = Ids(f"{self.log}:{self.batch}.{task.partition}", self.log)
        order = task.partition << 32
        for batch in batches:
            if batch.num_rows:
                self._stage(stager, batch, ids, order)
                order += 1
        yield pa.RecordBatch.from_pylist(stager.finish(), schema=MANIFEST)

    def _stage(self, stager: Stager, batch: Batch, ids: Ids, order: int) -> None:
        whole = completed(batch, self.qos_cap if not self.rules.persist else 2)
        rows = apply(whole, self.rules, self.hops)
        if self.rules.message_id is not None:
            key, beginning = self.rules.message_id
            rows = with_ids(rows, key, ids.of(batch, beginning))
        nowhere = without_destination(whole, rows)
        if nowhere is not None:  # no fault of the transform: it does not fail a batch
            lost = without_nulls(apply(whole.filter(nowhere), as_it_came(self.rules.route)))
            routes = Labels.one(self.rules.route, lost.num_rows)
            stager.put(routes, lost, order, f"{TRANSFORM}{NO_DESTINATION}")
            rows = rows.filter(pc.invert(nowhere))
            if not rows.num_rows:
                return
        for reason, chosen in sorted_out(rows):
            routes = Labels.one(self.rules.route, chosen.num_rows)
            if reason is None:
                stager.put(routes, chosen, order)
            elif self.dead_letters:
                stager.put(routes, without_nulls(chosen), order, f"{TRANSFORM}{reason}")
            else:
                raise TransformError(f"the transform made {_rows(chosen.num_rows)} with {REASONS[reason]}")


class Ids:
    """The ids of one task's rows: by the offset they came from, if the transform kept it, else by their place in the batch."""

    def __init__(self, place: str, log: str) -> None:
        self._place = place
        self._log = log
        self._count = 0
        self._last, self._again = -1, 0  # the offset of the last row, and how many rows before it had the same

    def of(self, batch: Batch, beginning: str) -> pa.Array:
        rows = batch.num_rows
        first, self._count = self._count, self._count + rows
        places = pa.array(np.arange(first, first + rows)).cast(pa.string())
        if OFFSET not in batch.schema.names:
            return pc.binary_join_element_wise(f"{beginning}:{self._place}", places, ".")
        column = batch.column(OFFSET)
        offsets = column.fill_null(-1).to_numpy(zero_copy_only=False)
        ids = pc.binary_join_element_wise(f"{beginning}:{self._log}", column.cast(pa.string()), ":")
        again = self._repeats(offsets)
        if again.any():  # of one message several were made: each has its own id
            more = pc.binary_join_element_wise(ids, pa.array(again).cast(pa.string()), ".")
            ids = pc.if_else(pa.array(again > 0), more, ids)
        if column.null_count:
            ids = pc.coalesce(ids, pc.binary_join_element_wise(f"{beginning}:{self._place}", places, "."))
        return ids

    def _repeats(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many rows in front of each, without another one between, have the same offset."""
        begins = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 1))
        lengths = np.diff(begins, append=len(offsets))
        again = np.arange(len(offsets)) - np.repeat(begins, lengths)
        if offsets[0] == self._last:
            again[: lengths[0]] += self._again + 1
        self._last, self._again = int(offsets[-1]), int(again[-1])
        return again


def completed(batch: Batch, qos_cap: int) -> Batch:
    """The rows with every column that the rules want."""
    rows = batch.num_rows
    names = batch.schema.names
    columns = {
        field.name: batch.column(field.name) if field.name in names else pa.nulls(rows, field.type)
        for field in OUTBOX
        if field.name != "wire_qos"
    }
    if CLIENT in names:
        columns[CLIENT] = batch.column(CLIENT)  # where the route's destination asks for it
    now = pa.scalar(clock.now_us(), pa.int64()).cast(TIMESTAMP)
    columns["received_at"] = pc.fill_null(columns["received_at"], now)
    columns["retain"] = pc.fill_null(columns["retain"], False)
    columns["qos"] = pc.min_element_wise(pc.fill_null(columns["qos"], 1), pa.scalar(qos_cap, pa.int32()))
    return pa.RecordBatch.from_pydict(columns)


def without_destination(whole: Batch, rows: Batch) -> pa.BooleanArray | None:
    """Which rows have a topic that the route's destination makes nothing of; None if there are none."""
    nowhere = _mask(pc.equal(rows.column("topic"), NO_TOPIC)) & ~_mask(pc.equal(whole.column("topic"), NO_TOPIC))
    return pa.array(nowhere) if nowhere.any() else None


REASONS: Final = {
    "no-topic": "no topic",
    "bad-topic": "a topic that is empty, too long or not valid (a wildcard, a NUL, no UTF-8)",
    "no-payload": "no payload",
    "bad-qos": "a QoS that is none of 0, 1 and 2",
    "bad-property": "a property that MQTT cannot carry (too long, out of bounds, without a key or a value)",
}
"""Why a row is no message."""


def sorted_out(rows: Batch) -> Iterator[tuple[str | None, Batch]]:
    """OUTBOX rows that are messages (None), and those that are none, by their reason; order is kept within each."""
    left = np.ones(rows.num_rows, np.bool_)
    found: list[tuple[str, Mask]] = []
    for reason, wrong in _faults(rows):
        wrong &= left
        if wrong.any():
            found.append((reason, wrong))
            left &= ~wrong
    if not found:
        yield None, rows
        return
    if left.any():
        yield None, rows.filter(pa.array(left))
    for reason, wrong in found:
        yield reason, rows.filter(pa.array(wrong))


def _faults(rows: Batch) -> Iterator[tuple[str, Mask]]:
    topic, qos = rows.column("topic"), rows.column("qos")
    yield "no-topic", _mask(topic.is_null())
    yield "bad-topic", _bad_text(topic, names=True) | _mask(pc.equal(pc.binary_length(topic), 0))
    yield "no-payload", _mask(rows.column("payload").is_null())
    yield "bad-qos", _outside(qos, 0, 2)
    bad = _bad_text(rows.column("content_type")) | _bad_text(rows.column("response_topic"), names=True)
    bad |= _mask(pc.greater(pc.binary_length(rows.column("correlation_data")), LONGEST))
    bad |= _outside(rows.column("message_expiry"), 0, 2**32 - 1) | _outside(rows.column("payload_format"), 0, 1)
    yield "bad-property", bad | _bad_pairs(rows.column("user_properties"))


def _bad_text(column: pa.Array, *, names: bool = False) -> Mask:
    """Text that MQTT cannot carry; a topic name has no wildcards besides."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.bool_)
    bad = _mask(pc.greater(pc.binary_length(column), LONGEST)) | _no_utf8(column)
    for sign in ("\0", "#", "+") if names else ("\0",):
        bad |= _mask(pc.match_substring(column.cast(pa.binary()), sign.encode()))
    return bad


def _no_utf8(column: pa.Array) -> Mask:
    """Spark's strings are bytes that nobody has looked at."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([value is not None and not _decodes(value) for value in column.cast(pa.binary()).to_pylist()])
    return np.zeros(len(column), np.bool_)


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad_pairs(lists: pa.ListArray) -> Mask:
    """Rows with a user property without a key or a value, or with one that is too long."""
    bad = np.zeros(len(lists), np.bool_)
    pairs = lists.flatten()
    wrong = np.zeros(len(pairs), np.bool_)
    for part in ("key", "value"):
        texts = pc.struct_field(pairs, part)
        wrong |= _mask(texts.is_null()) | _bad_text(texts)
    if wrong.any():
        bad[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[wrong]] = True
    return bad


def _outside(column: pa.Array, low: int, high: int) -> Mask:
    return _mask(pc.or_(pc.less(column, low), pc.greater(column, high)))


def _mask(found: pa.Array) -> Mask:
    """A null is no fault."""
    mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask.copy()


def without_nulls(rows: Batch) -> Batch:
    """Rows that are no messages in a form that can be kept and looked at."""
    topic = pc.fill_null(rows.column("topic"), "")
    text = topic.cast(pa.binary()).to_pylist()
    columns = {name: rows.column(name) for name in OUTBOX.names}
    columns["topic"] = pa.array([each.decode(errors="replace") for each in text], pa.string())
    columns["payload"] = pc.fill_null(rows.column("payload"), b"")
    for name in ("qos", "wire_qos"):
        within = np.clip(columns[name].to_numpy(zero_copy_only=False), 0, 2)
        columns[name] = pa.array(within, pa.int32())
    return pa.RecordBatch.from_arrays([columns[name] for name in OUTBOX.names], schema=OUTBOX)


def _rows(count: int) -> str:
    return "a row" if count == 1 else f"{count} rows"
