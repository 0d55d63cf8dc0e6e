"""Which subscriptions a bridge makes at its remote broker, so that a message comes once however its filters overlap.

A broker may send one copy for each subscription that matches [MQTT-3.3.4-2]. So a filter that another one covers is not
subscribed at all. Filters that overlap only in part get a subscription identifier each (MQTT 5): of several copies the one
counts that came by the first matching subscription. MQTT 3.1.1 cannot tell copies apart: there such filters are joined into
one that covers them, and what it brings beyond them no route takes. Only if that would be everything they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.route import Route
from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.wire.filtersets import alone, any_meet, apart, meet, without_covered
from bridgehead.wire.packets import Subscription
from bridgehead.wire.topicnames import intersect, share_of
from bridgehead.wire.topictemplate import read_template

RETAIN_HANDLING: Final = {"level": 0, "first": 1, "skip": 2}
"""Whether stored messages of the remote come with every subscription, with a new one, or never."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to subscribe to; with ``identified`` each subscription is made under its place in the list, from 1 on."""

    subscriptions: tuple[Subscription, ...]
    identified: bool
    may_echo: bool  # what the bridge sends may be what it subscribes to


class Asked:
    """The filters that the remote may have of ours in a session that it keeps, whenever somebody asked for them."""

    def __init__(self, engine: Engine, bridge: str, session: list[Any], filters: Iterable[str]) -> None:
        """``session`` says whose it is: what is in another one is nothing of ours."""
        self._engine = engine
        self._name: Shelf = ("subscribed", bridge)
        self._session = session
        self._filters = sorted(filters)
        found = engine.state(self._name)
        self._known: list[str] = found["filters"] if found is not None and found["session"] == session else []

    @property
    def unwanted(self) -> tuple[str, ...]:
        """Those that nobody wants any more."""
        return tuple(each for each in self._known if each not in self._filters)

    def ask(self) -> None:
        """From now on the remote may have all of them, and those before."""
        self._note(sorted({*self._known, *self._filters}))

    def answered(self) -> None:
        """The remote has what we want, and nothing else."""
        self._note(self._filters)

    def _note(self, filters: list[str]) -> None:
        if filters != self._known:
            self._known = filters
            self._engine.write(Changes(state={self._name: {"session": self._session, "filters": filters}}))


def wishes_of(bridge: Bridge, routes: Sequence[Route]) -> Wishes:
    """The subscriptions of all pull routes of a bridge."""
    version5 = bridge.mqtt_version == 5
    pulls = [(each, route) for route in routes if route.direction == "pull" for each in route.filters]
    kept, identified = needed((each for each, _ in pulls), version5=version5, join=bridge.join_filters)
    reached = [each for route in routes if route.direction == "push" for each in _reach(route)]
    may_echo = any(intersect(each, share_of(wanted)[1]) for each in reached for wanted in kept)
    return Wishes(tuple(_wish(bridge, each, pulls, version5) for each in kept), identified, may_echo)


def _reach(route: Route) -> list[str]:
    """Filters that select every topic which a push route may send to."""
    if route.rewrite or (route.transform is not None and route.destination is None):
        return ["#"]
    if route.destination is not None:
        return [read_template(route.destination).reach]
    return [share_of(each)[1] for each in route.filters]


def needed(filters: Iterable[str], *, version5: bool, join: bool = True) -> tuple[list[str], bool]:
    """What to subscribe to for these filters so that each message can be taken once, and whether that takes identifiers.

    Without ``join``, and for filters that only everything covers, it is up to a remote of 3.1.1 to send one copy only.
    """
    if join and not version5:
        return apart(filters), False
    kept = without_covered(filters)
    return kept, version5 and any_meet(kept)


def _wish(bridge: Bridge, topic_filter: str, pulls: list[tuple[str, Route]], version5: bool) -> Subscription:
    """As much as any route wants of what comes this way; a route that wants less lowers it for itself."""
    served = [route for each, route in pulls if each == topic_filter or meet(each, topic_filter)]
    return Subscription(
        topic_filter,
        qos=max(route.max_qos for route in served),
        no_local=bridge.no_local and version5 and alone(topic_filter),  # else a protocol error [MQTT-3.8.3-4]
        retain_as_published=version5 and any(route.preserve_retain for route in served),
        retain_handling=min(RETAIN_HANDLING[route.retained] for route in served) if version5 else 0,
    )
