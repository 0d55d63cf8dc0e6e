"""The distributor: for every accepted publish, its local subscribers and its routes. Columns in, columns out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.broker.retained import Retained
from bridgehead.broker.session import ClientSession
from bridgehead.broker.tree import TopicTree
from bridgehead.columns.batches import Batch, columns_of, constant, constant_label
from bridgehead.columns.schema import OUTBOX
from bridgehead.pipeline.admission import guarded
from bridgehead.pipeline.door import Arrived, Door, timestamps
from bridgehead.pipeline.doorways import Doorways
from bridgehead.pipeline.plans import TopicPlans
from bridgehead.storage.engine import Changes, Engine
from bridgehead.wire.packets import Subscription

SHORT: Final = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """A subscription in the tree: whose it is, and how it wants its messages."""

    session: ClientSession
    subscription: Subscription
    identifier: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """All subscriptions of one session that match a topic, joined: one copy, at the highest QoS [MQTT-3.3.4-2]."""

    session: ClientSession
    qos: int
    no_local: bool
    retain_as_published: bool
    identifiers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to messages of a topic."""

    deliveries: tuple[Delivery, ...]
    doors: tuple[Door, ...]
    excluded: tuple[Door, ...]


class Distributor:
    """Decides and hands on. Sessions with new rows are collected in ``dirty`` until somebody pumps them."""

    def __init__(self, engine: Engine, doors: Callable[[], list[Door]]) -> None:
        self._doors = doors
        self._tree: TopicTree[Entry] = TopicTree()
        self._plans: TopicPlans[Plan] = TopicPlans(self._plan)
        self._doorways = Doorways()
        self._guarded: bool | None = None  # whether any route makes publishers wait; None: not looked yet
        self.retained = Retained(engine)
        self.dirty: dict[int, ClientSession] = {}
        self.heard = 0  # messages that at least one client had subscribed to

    def subscribe(self, session: ClientSession, subscription: Subscription, identifier: int) -> bool:
        """True if the session did not have this filter before."""
        session.subscriptions[subscription.filter] = subscription
        session.identifiers[subscription.filter] = identifier
        self._plans.invalidate()
        return self._tree.put(subscription.filter, session.client_id, Entry(session, subscription, identifier))

    def resume(self, session: ClientSession) -> None:
        """A session of an earlier life is served again."""
        for topic_filter, subscription in session.subscriptions.items():
            self._tree.put(topic_filter, session.client_id, Entry(session, subscription, session.identifiers[topic_filter]))
        self._plans.invalidate()

    def unsubscribe(self, session: ClientSession, topic_filter: str) -> bool:
        session.subscriptions.pop(topic_filter, None)
        session.identifiers.pop(topic_filter, None)
        self._plans.invalidate()
        return self._tree.remove(topic_filter, session.client_id)

    def routes_changed(self) -> None:
        self._plans.invalidate()
        self._guarded = None

    def short(self, batch: Batch) -> dict[Door, npt.NDArray[np.int64]]:
        """Routes that may not have room for all that they want of these rows, with the rows that they want."""
        if self._guarded is None:
            self._guarded = any(door.room is not None for door in self._doors())
        if not self._guarded:
            return {}
        return guarded([(plan.doors, rows) for plan, rows in self._plans.groups(batch.column("topic"))], batch)

    def distribute(self, changes: Changes, batch: Batch, clients: pa.DictionaryArray, received_at: int) -> None:
        """Rows of WIRE form that were accepted, with the client each came from, in order of arrival."""
        times = timestamps(received_at, batch.num_rows)
        if batch.column("retain").true_count:
            self.retained.keep(changes, _outgoing(batch, times, batch.column("qos"), batch.column("retain")))
        arrived = Arrived(batch, clients, times)
        numbers = self._plans.look_up(batch.column("topic"))
        plans = self._plans.known
        if (numbers == numbers[0]).all():
            plan = plans[numbers[0]]
            self._aside(changes, plan, arrived)
            if len(plan.doors) == 1:
                plan.doors[0].admit(changes, *arrived)
                return
        else:
            for number in np.unique(numbers):
                if plans[number].excluded or plans[number].deliveries:
                    self._aside(changes, plans[number], arrived.only(np.flatnonzero(numbers == number)))
        # All plans together: subscribers to some topics of a route do not change the order of the rest.
        self._doorways.admit(changes, arrived, plans, numbers)

    def _aside(self, changes: Changes, plan: Plan, part: Arrived) -> None:
        """Rows of one plan, as far as they do not go to routes."""
        for door in plan.excluded:
            door.exclude(part.batch.num_rows)
        if plan.deliveries:
            self.heard += part.batch.num_rows
        for delivery in plan.deliveries:
            self._deliver(changes, delivery, part)

    def _deliver(self, changes: Changes, delivery: Delivery, part: Arrived) -> None:
        session = delivery.session
        batch, clients, times = part
        if delivery.no_local:
            others = pc.not_equal(clients.dictionary_decode(), session.client_id)
            if others.true_count < len(others):
                batch, times = batch.filter(others), times.filter(others)
                if batch.num_rows == 0:
                    return
        qos = batch.column("qos")
        if delivery.qos < 2:
            qos = pc.min_element_wise(qos, pa.scalar(delivery.qos, pa.int32()))
        retain = batch.column("retain") if delivery.retain_as_published else constant(False, pa.bool_(), batch.num_rows)
        session.queue(changes, _outgoing(batch, times, qos, retain), delivery.identifiers)
        self.dirty[id(session)] = session

    def _plan(self, topic: str) -> Plan:
        by_session: dict[int, list[Entry]] = {}
        for _, entry in self._tree.match(topic):
            by_session.setdefault(id(entry.session), []).append(entry)
        wanting = [door for door in self._doors() if door.filters_match(topic)]
        excluded = tuple(door for door in wanting if door.excludes_match(topic))
        return Plan(
            tuple(_joined(entries) for entries in by_session.values()),
            tuple(door for door in wanting if door not in excluded),
            excluded,
        )


def _joined(entries: list[Entry]) -> Delivery:
    wishes = [entry.subscription for entry in entries]
    return Delivery(
        entries[0].session,
        max(wish.qos for wish in wishes),
        all(wish.no_local for wish in wishes),
        any(wish.retain_as_published for wish in wishes),
        tuple(entry.identifier for entry in entries if entry.identifier),
    )


def _outgoing(batch: Batch, times: pa.Array, qos: pa.Array, retain: pa.Array) -> Batch:
    columns = columns_of(batch)
    columns.update(qos=qos, wire_qos=qos, retain=retain, received_at=times)
    return pa.RecordBatch.from_arrays([columns[name] for name in OUTBOX.names], schema=OUTBOX)


def single_client(name: str, rows: int) -> pa.DictionaryArray:
    """The client column of rows that all came from one client."""
    return constant_label(name, rows)


def clients_of(conns: npt.NDArray[np.int64], name_of: Callable[[int], str]) -> pa.DictionaryArray:
    """The client column of rows by the connection each came on."""
    others = np.flatnonzero(conns[1:] != conns[:-1]) + 1  # where the rows of another one begin
    if not len(others):
        return single_client(name_of(int(conns[0])), len(conns))
    if len(conns) <= SHORT:
        # sorting costs more than a look at each row of a short turn
        numbers = {conn: i for i, conn in enumerate(dict.fromkeys(conns.tolist()))}
        indices = pa.array([numbers[conn] for conn in conns.tolist()], pa.int32())
        return pa.DictionaryArray.from_arrays(indices, pa.array([name_of(conn) for conn in numbers], pa.string()))
    begins = np.concatenate(([0], others))
    distinct, which = np.unique(conns[begins], return_inverse=True)
    indices = pa.array(np.repeat(which.astype(np.int32), np.diff(begins, append=len(conns))))
    return pa.DictionaryArray.from_arrays(indices, pa.array([name_of(int(conn)) for conn in distinct], pa.string()))
