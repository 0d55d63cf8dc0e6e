"""Sessions on the disk: what a client that comes back after a restart of the node must find as it left it.

Under ("session", client id): its expiry, and when its last connection ended (wall clock: time goes on while the node is down;
None while connected). Under ("subscription", client id, filter): the options and the subscription identifier. Its QoS 2 ids, of
both directions, and its queue are beside them, and are written with the messages that change them. A session without an expiry
ends with its connection and is never here; one that is given up goes with all that belongs to it, in one write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridgehead.broker.outgoing import RECORDS
from bridgehead.broker.session import ClientSession
from bridgehead.clock import monotonic, now_us
from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.wire.packets import Subscription

MICROSECONDS: Final = 1_000_000


class SessionStore:
    """Reads sessions once, at the start, and writes what changes of those that are kept."""

    def __init__(self, engine: Engine, make: Callable[[str, bool], ClientSession]) -> None:
        self._engine = engine
        self._make = make  # a session by client id, and whether it is kept

    def new(self, client_id: str, expiry: int) -> ClientSession:
        """A session from the beginning; it is kept if it is to outlive its connection, and anything outlives the process."""
        session = self._make(client_id, self._engine.durable and expiry > 0)
        session.expiry = expiry
        return session

    def found(self) -> dict[str, ClientSession]:
        """What an earlier life has left; sessions that ended with it, or while nobody was there, are given up."""
        sessions: dict[str, ClientSession] = {}
        for (_, client_id), record in self._engine.states(("session",)):
            session = sessions[client_id] = self._make(client_id, True)
            session.expiry = record["expiry"]
            # A node that was killed could not say when: then its time begins now.
            away = 0 if record["ended"] is None else max(now_us() - record["ended"], 0) / MICROSECONDS
            session.ended_at = monotonic() - away
        orphans = Changes()  # damage may have taken a session and left what belonged to it
        for shelf, (*options, identifier) in self._engine.states(("subscription",)):
            _, client_id, topic_filter = shelf
            if client_id in sessions:
                sessions[client_id].subscriptions[topic_filter] = Subscription(topic_filter, *options)
                sessions[client_id].identifiers[topic_filter] = identifier
            else:
                orphans.state[shelf] = None
        orphans.state.update({shelf: None for shelf, _ in self._engine.states(RECORDS) if shelf[len(RECORDS)] not in sessions})
        self._engine.write(orphans)
        for client_id, session in list(sessions.items()):
            if session.over(monotonic()):
                self.give_up(session)
                del sessions[client_id]
            else:
                session.recall_identifiers()
        return sessions

    def connected(self, session: ClientSession, *, new: bool) -> None:
        changes = Changes()
        if session.kept and new:
            session.begin(changes)
        self._keep(changes, session, None)

    def ended(self, session: ClientSession) -> None:
        self._keep(Changes(), session, now_us())

    def _keep(self, changes: Changes, session: ClientSession, ended: int | None) -> None:
        if session.kept:
            changes.state[_session(session)] = {"expiry": session.expiry, "ended": ended}
            self._engine.write(changes)

    def subscribed(self, session: ClientSession, filters: list[str]) -> None:
        """These filters of the session are new, have changed, or are gone."""
        if session.kept and filters:
            self._engine.write(Changes(state={_subscription(session, each): _options(session, each) for each in filters}))

    def give_up(self, session: ClientSession) -> None:
        """Nobody will ask for this session again."""
        if session.kept:
            changes = Changes(state={_session(session): None})
            changes.state.update({_subscription(session, each): None for each in session.subscriptions})
            session.give_up(changes)
            self._engine.write(changes)


def _session(session: ClientSession) -> Shelf:
    return ("session", session.client_id)


def _subscription(session: ClientSession, topic_filter: str) -> Shelf:
    return ("subscription", session.client_id, topic_filter)


def _options(session: ClientSession, topic_filter: str) -> list[int | bool] | None:
    wish = session.subscriptions.get(topic_filter)
    if wish is None:
        return None
    identifier = session.identifiers[topic_filter]
    return [wish.qos, wish.no_local, wish.retain_as_published, wish.retain_handling, identifier]
