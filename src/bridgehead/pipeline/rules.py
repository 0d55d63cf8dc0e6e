"""The rules of a route, after the transform: destination, user properties, hop count, retain, wire QoS.

One vectorised function on Arrow batches, run in Spark's workers and in the node alike. No column is touched row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.columns.batches import CONSTANT_ROWS, Batch, column_data, constant, list_bounds, row_weights
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import OUTBOX, USER_PROPERTIES, USER_PROPERTY
from bridgehead.pipeline.destination import HERE, LONGEST, NO_TOPIC, Where, change_of
from bridgehead.pipeline.hops import HOP_COUNT, hop_counts, is_hop
from bridgehead.storage.deadletters import NO_DESTINATION
from bridgehead.wire.topictemplate import read_template


@dataclass(frozen=True, slots=True)
class RouteRules:
    """What a route does to each of its messages. Plain values: it travels to Spark's workers as JSON."""

    route: str
    destination: str | None = None  # a template; names and variables are filled in
    user_properties: tuple[tuple[str, str], ...] = ()
    preserve_retain: bool = False
    max_qos: int = 2
    persist: bool = True  # else a row that says no QoS has 0; the door lowers all that come, not what was promised before
    count_hops: bool = True
    message_id: tuple[str, str] | None = None  # the user property that carries it, and how its value begins
    filters: tuple[str, ...] = ()  # where the destination asks for what their wildcards stand for
    rewrite: tuple[tuple[str, str], ...] = ()  # patterns in the topic, and what takes their place
    hops_unsaid: int = 0  # the count of a row that does not say it: above 0 where the way here cannot carry one

    @property
    def where(self) -> Where:
        return Where(self.destination, self.filters, self.rewrite)

    @property
    def asks_for_client(self) -> bool:
        """Where a row goes depends on who published it."""
        return self.destination is not None and read_template(self.destination).asks_for_client

    @staticmethod
    def from_json(value: dict[str, Any]) -> RouteRules:
        message_id = value.get("message_id")
        tuples = {
            "user_properties": tuple((key, text) for key, text in value["user_properties"]),
            "message_id": None if message_id is None else tuple(message_id),
            "filters": tuple(value.get("filters", ())),
            "rewrite": tuple((pattern, replacement) for pattern, replacement in value.get("rewrite", ())),
        }
        return RouteRules(**{**value, **tuples})


K = TypeVar("K", bound=Hashable)
Places = npt.NDArray[np.int64]
Made = tuple[str, Batch, str | None]
"""The route of rows, the rows, and why they are to be its dead letters, if they are."""


def applied(batch: Batch, log: str, first_offset: int, rules: Mapping[str, RouteRules]) -> Iterator[Made]:
    """Rows of any routes of a log as OUTBOX rows, route by route."""
    for routes, rows, reason in together(batch, log, first_offset, rules):
        for route, own, _ in split(routes, rows):
            yield route, own, reason


def together(
    batch: Batch, log: str, first_offset: int, rules: Mapping[str, RouteRules]
) -> Iterator[tuple[Labels, Batch, str | None]]:
    """Rows of any routes of a log as OUTBOX rows, each with its route: those of routes that do the same are done at once.

    They are consecutive, or say their offsets themselves. A row that has no destination is a dead letter as it came, and stops
    no other.
    """
    every = routes_of(batch)
    topics = _destinations(batch, every, rules)
    for rule, rows in _alike(every, rules, _anywhere):
        own, routes, going = batch, every, topics
        if rows is not None:
            chosen = pa.array(rows)
            own, routes, going = batch.take(chosen), every.only(rows), None if topics is None else topics.take(chosen)
        result = apply(own, rule, topics=going)
        if rule.message_id is not None:
            key, before = _id_before_offset(rule.message_id, log)
            offsets = _offsets(batch, first_offset)
            numbers = pa.array(offsets if rows is None else offsets[rows]).cast(pa.string())
            # No other message has this id: an offset is given once in a log's life.
            result = with_ids(result, key, pc.binary_join_element_wise(before, numbers, ""))
        nowhere = None if going is None else _nowhere(going)
        if nowhere is None:
            yield routes, result, None
            continue
        lost = nowhere.to_numpy(zero_copy_only=False)
        if not lost.all():
            yield routes.only(~lost), result.filter(pc.invert(nowhere)), None
        yield routes.only(lost), apply(own.filter(nowhere), as_it_came(rule.route)), NO_DESTINATION


def _alike(
    routes: Labels, rules: Mapping[str, RouteRules], kind_of: Callable[[RouteRules], K]
) -> list[tuple[K, Places | None]]:
    """The kinds of rules that these rows have, and the rows of each (None = all of them)."""
    if len(routes.names) == 1:
        return [(kind_of(rules[routes.names[0]]), None)]
    kinds: dict[K, int] = {}
    numbers = np.zeros(len(routes.names), np.int64)
    for route in np.unique(routes.of_row):
        numbers[route] = kinds.setdefault(kind_of(rules[routes.names[route]]), len(kinds))
    if len(kinds) == 1:
        return [(next(iter(kinds)), None)]
    of_row = numbers[routes.of_row]
    return [(kind, np.flatnonzero(of_row == number)) for kind, number in kinds.items()]


@lru_cache(maxsize=4096)
def _anywhere(rule: RouteRules) -> RouteRules:
    """What a route does to its messages, whatever its name is and wherever they go."""
    return replace(rule, route="", destination=None, filters=(), rewrite=())


def _destinations(batch: Batch, routes: Labels, rules: Mapping[str, RouteRules]) -> pa.Array | None:
    """The topics that the rows go to; None if all keep theirs. Only this is done place by place, and touches only topics."""
    places = _alike(routes, rules, lambda rule: rule.where)
    topics, clients = batch.column("topic"), _clients(batch)
    if len(places) == 1:
        where = places[0][0]
        return None if where == HERE else change_of(where)(topics, clients)
    changed = []
    for where, rows in places:
        chosen = pa.array(rows)
        changed.append(change_of(where)(topics.take(chosen), None if clients is None else clients.take(chosen)))
    back = np.argsort(np.concatenate([rows for _, rows in places if rows is not None]))
    return pa.concat_arrays(changed).take(pa.array(back))


def as_it_came(route: str) -> RouteRules:
    """The rules that change nothing, for rows that are to begin their way anew one day."""
    return RouteRules(route, preserve_retain=True, count_hops=False)


def _nowhere(topics: pa.Array) -> pa.BooleanArray | None:
    """Which rows have no topic to go to; None if all have one."""
    ends, _ = column_data(topics)
    return None if (np.diff(ends) > 0).all() else pc.equal(topics, NO_TOPIC)


def apply(batch: Batch, rules: RouteRules, hops: int = 0, topics: pa.Array | None = None) -> Batch:
    """Rows of one route (any schema with the message columns) as OUTBOX rows, in the same order.

    ``hops`` is the least count that a row came with which does not say it; ``topics`` is where they go, if that is known.
    """
    rows = batch.num_rows
    hops = max(hops, rules.hops_unsaid)
    qos = batch.column("qos")
    if qos.null_count:
        qos = pc.fill_null(qos, 1 if rules.persist else 0)
    columns = {name: batch.column(name) for name in OUTBOX.names if name not in ("wire_qos",)}
    columns["topic"] = change_of(rules.where)(columns["topic"], _clients(batch)) if topics is None else topics
    columns["qos"] = qos
    columns["wire_qos"] = qos if rules.max_qos >= 2 else pc.min_element_wise(qos, pa.scalar(rules.max_qos, pa.int32()))
    if not rules.preserve_retain:
        columns["retain"] = constant(False, pa.bool_(), rows)
    columns["user_properties"] = _user_properties(columns["user_properties"], rules, hops)
    return pa.RecordBatch.from_arrays([columns[name] for name in OUTBOX.names], schema=OUTBOX)


def made_weights(batch: Batch, rules: RouteRules, log: str, offsets: Places, clients: pa.Array | None) -> Places:
    """What rows of one route weigh when they are OUTBOX rows, from what they are before: no text that all get is copied."""
    topics = change_of(rules.where)(batch.column("topic"), clients)
    properties = _user_properties(batch.column("user_properties"), _hops_only(rules), rules.hops_unsaid)
    for name, column in (("topic", topics), ("user_properties", properties)):
        batch = batch.set_column(batch.schema.get_field_index(name), OUTBOX.field(name), column)
    weights: Places = np.diff(row_weights(batch)) + _length(rules.user_properties)
    if rules.message_id is not None:
        weights += _length([_id_before_offset(rules.message_id, log)]) + np.searchsorted(_TENS, offsets, side="right") + 1
    return weights


@lru_cache(maxsize=4096)
def most_added(rules: RouteRules, log: str) -> int:
    """The bytes that one row may gain at most on its way to the outbox."""
    added = _length(rules.user_properties) + (0 if rules.where == HERE else LONGEST)
    if rules.count_hops:
        added += _length([(HOP_COUNT, "-2147483648")])
    if rules.message_id is not None:
        added += _length([_id_before_offset(rules.message_id, log)]) + len(_TENS) + 1
    return added


_TENS: Final = 10 ** np.arange(1, 19)


@lru_cache(maxsize=4096)
def _hops_only(rules: RouteRules) -> RouteRules:
    return RouteRules("", count_hops=rules.count_hops, hops_unsaid=rules.hops_unsaid)


def _id_before_offset(message_id: tuple[str, str], log: str) -> tuple[str, str]:
    """The user property of an id, without the number at its end."""
    key, beginning = message_id
    return key, f"{beginning}:{log}:"


def _length(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(len(text.encode()) for pair in pairs for text in pair)


def _clients(batch: Batch) -> pa.Array | None:
    """Who published the rows; a transform may not say."""
    at = batch.schema.get_field_index("client_id")
    return batch.column(at) if at >= 0 else None


def routes_of(batch: Batch) -> Labels:
    """What the rows say whose they are."""
    column = batch.column("route")
    return Labels.of(column if pa.types.is_dictionary(column.type) else column.dictionary_encode())


def split_routes(batch: Batch) -> list[tuple[str, Batch, Places | None]]:
    """The same as ``split``, for rows that say their routes."""
    return split(routes_of(batch), batch)


def split(routes: Labels, batch: Batch) -> list[tuple[str, Batch, Places | None]]:
    """The rows of each route and their places, order kept; a batch of one route is handed through as it is (None = all).

    Each has memory of its own: a route whose remote is away must not keep the rows of all others.
    """
    if len(routes.names) == 1:
        return [(routes.names[0], batch, None)]
    places = routes.places()
    if len(places) == 1:
        return [(places[0][0], batch, None)]
    return [(name, batch.take(pa.array(rows)), rows) for name, rows in places]


def _offsets(batch: Batch, first: int) -> npt.NDArray[np.int64]:
    """The journal offset of each row."""
    if "journal_offset" in batch.schema.names:
        found: npt.NDArray[np.int64] = batch.column("journal_offset").to_numpy(zero_copy_only=False)
        return found
    return np.arange(first, first + batch.num_rows)


def with_ids(batch: Batch, key: str, values: pa.Array) -> Batch:
    """OUTBOX rows with one user property more, behind all others: their ids."""
    rows = batch.num_rows
    ids = pa.StructArray.from_arrays([constant(key, pa.string(), rows), values], fields=list(USER_PROPERTY))
    own, ends = batch.column("user_properties"), np.zeros(rows + 1, np.int64)
    ends[:] = own.offsets.to_numpy()
    before = own.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    added = _joined(before, np.arange(len(before)), ends - ends[0], _structs([]), (ids, np.arange(rows)))
    return batch.set_column(batch.schema.get_field_index("user_properties"), OUTBOX.field("user_properties"), added)


def _user_properties(column: pa.Array, rules: RouteRules, without: int) -> pa.Array:
    """The row's own in their order, then the route's, then the hop count, which replaces every one that came in."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar([], USER_PROPERTIES))
    first, last = list_bounds(column)
    if first == last and without == rules.hops_unsaid:
        return _same_for_all(rules, len(column))
    offsets = column.offsets.to_numpy().astype(np.int64)
    own = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    if not rules.count_hops:
        # A bridge with loop prevention switched off adds nothing, and passes the count on as it came.
        return _joined(own, np.arange(len(own)), offsets, _structs(list(rules.user_properties)), None)
    counts = is_hop(own)
    hops = hop_counts(column)
    hops[hops == 0] = without
    kept = np.flatnonzero(~counts)
    kept_before = np.concatenate(([0], np.cumsum(~counts)))
    values, which = np.unique(hops + 1, return_inverse=True)
    return _joined(
        own,
        kept,
        kept_before[offsets],
        _structs(list(rules.user_properties)),
        (_structs([(HOP_COUNT, str(int(value))) for value in values]), which),
    )


def _same_for_all(rules: RouteRules, rows: int) -> pa.Array:
    """The properties of rows that came without any: the same list in each."""
    if rows <= CONSTANT_ROWS:
        return _kept_lists(rules).slice(0, rows)
    return _repeated_list(rules, rows)


@lru_cache(maxsize=256)
def _kept_lists(rules: RouteRules) -> pa.Array:
    return _repeated_list(rules, CONSTANT_ROWS)


def _repeated_list(rules: RouteRules, rows: int) -> pa.Array:
    hop = [(HOP_COUNT, str(rules.hops_unsaid + 1))] if rules.count_hops else []
    added = _structs([*rules.user_properties, *hop])
    return _joined(_structs([]), np.zeros(0, np.int64), np.zeros(rows + 1, np.int64), added, None)


def _structs(pairs: list[tuple[str, str]]) -> pa.StructArray:
    keys = pa.array([key for key, _ in pairs], pa.string())
    return pa.StructArray.from_arrays([keys, pa.array([text for _, text in pairs], pa.string())], fields=list(USER_PROPERTY))


def _joined(
    own: pa.Array,
    kept: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    added: pa.StructArray,
    per_row: tuple[pa.StructArray, npt.NDArray[np.int64]] | None,
) -> pa.Array:
    """Each row's kept entries of ``own`` (kept[offsets[i]:offsets[i+1]]), then all of ``added``, then one of ``per_row``."""
    rows = len(offsets) - 1
    tail = len(added) + (per_row is not None)
    if tail == 0 and len(kept) == len(own):
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), own, type=USER_PROPERTIES)
    pool = pa.concat_arrays([own, added, *([per_row[0]] if per_row else [])])
    new_offsets = offsets + np.arange(rows + 1) * tail
    picks = np.empty(int(new_offsets[-1]), np.int64)
    row_of_kept = np.repeat(np.arange(rows), np.diff(offsets))
    picks[np.arange(len(kept)) + row_of_kept * tail] = kept
    for i in range(len(added)):
        picks[new_offsets[1:] - tail + i] = len(own) + i
    if per_row is not None:
        picks[new_offsets[1:] - 1] = len(own) + len(added) + per_row[1]
    return pa.ListArray.from_arrays(pa.array(new_offsets.astype(np.int32)), pool.take(pa.array(picks)), type=USER_PROPERTIES)
