"""The parts of every route: its rules, its door, its outbox; and of the routes that are not configured any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.jobconfig import TransformRule
from bridgehead.pipeline.remembered import remember, removed_routes
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route
from bridgehead.settings.transform import Transform
from bridgehead.storage.engine import Engine
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import Ledger, settle
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.topictemplate import read_template

UNBOUNDED: Final = 1 << 62
"""The bounds of a removed route's outbox: what lands there was accepted when the route was there."""

INLINE: Final = "inline"
"""The log of all routes that run in the node."""


class Routes:
    """By the id of each route. The mappings are changed in place: whoever was given one sees what is there now."""

    def __init__(self, settings: Settings, engine: Engine, journal: Journal, room_again: Callable[[], None]) -> None:
        """``room_again``: rows have left an outbox whose publishers may wait for that."""
        self._engine = engine
        self._journal = journal
        self._room_again = room_again
        self._life = f"{settings.node}:{engine.incarnation}"
        bridges = {bridge.id: bridge for bridge in settings.bridges}
        self.configured = {route.id: route for route in settings.routes()}
        self.rules = {route.id: _rules(route, bridges[route.bridge], self._life) for route in self.configured.values()}
        remember(engine, self.rules.values())
        self.removed = removed_routes(engine, journal, self.rules)
        self.outboxes = {route.id: self._outbox(route) for route in self.configured.values()}
        for removed in self.removed:
            self.outboxes[removed] = Outbox(removed, engine, UNBOUNDED, UNBOUNDED, Ledger(removed, engine))
        settle(engine, [outbox.ledger for outbox in self.outboxes.values()], journal.waiting_of)
        self.transforms = {id: transform_rule(each.transform) for id, each in self.configured.items() if each.transform}
        self.doors = {route.id: self._door(route, bridges[route.bridge]) for route in self.configured.values()}

    def of(self, bridge: str) -> list[Route]:
        """The routes of a bridge, in the order of its rules."""
        return [route for route in self.configured.values() if route.bridge == bridge]

    def doors_of(self, direction: str, bridge: str | None = None) -> list[Door]:
        """The doors of all routes of a direction, or of those of one bridge."""
        wanted = (route for route in self.configured.values() if route.direction == direction)
        return [self.doors[route.id] for route in wanted if bridge in (None, route.bridge)]

    def _outbox(self, route: Route) -> Outbox:
        assert route.queue_limit is not None
        assert route.max_queue_bytes is not None
        assert route.strategy is not None
        ledger = Ledger(route.id, self._engine)
        return Outbox(route.id, self._engine, route.queue_limit, route.max_queue_bytes, ledger, route.strategy)

    def _door(self, route: Route, bridge: Bridge) -> Door:
        outbox = self.outboxes[route.id]
        door = Door(_door_rule(route, bridge), self._journal.log(log_name(route)), outbox.ledger)
        if route.strategy == "refuse":
            door.room = Room(outbox, self._journal)
            outbox.on_left = self._room_again
        return door


def log_name(route: Route) -> str:
    """The log that the rows of a route go to."""
    if route.has_own_query:
        return route.id
    return INLINE if route.engine == "inline" else SHARED


def transform_rule(transform: Transform) -> TransformRule:
    """A transform as the pipeline knows it."""
    return TransformRule(
        sql=transform.sql,
        sql_file=None if transform.sql_file is None else str(transform.sql_file),
        python=transform.python,
        options=transform.options,
        output_mode=transform.output_mode,
        on_error=transform.on_error,
    )


def _door_rule(route: Route, bridge: Bridge) -> DoorRule:
    return DoorRule(
        route=route.id,
        bridge=route.bridge,
        filters=route.filters,
        excludes=route.excludes,
        persist=bridge.persist,
        hop_limit=_hop_limit(route, bridge),
    )


def _hop_limit(route: Route, bridge: Bridge) -> int | None:
    """Over MQTT 3.1.1 the count is lost: what has crossed a bridge already does not leave that way."""
    if not bridge.loop_prevention_enabled:
        return None
    return 1 if route.direction == "push" and bridge.mqtt_version != 5 else bridge.loop_prevention_hop_count


def _hops_unsaid(route: Route, bridge: Bridge) -> int:
    """And what comes that way has crossed as many as it may, for all that anybody knows."""
    return bridge.loop_prevention_hop_count - 1 if route.direction == "pull" and bridge.mqtt_version != 5 else 0


def _rules(route: Route, bridge: Bridge, life: str) -> RouteRules:
    """``life`` names this node and its offsets, in which no two messages share one."""
    return RouteRules(
        route=route.id,
        destination=route.destination,
        filters=route.filters if route.destination is not None and read_template(route.destination).captures else (),
        rewrite=route.rewrite,
        user_properties=route.custom_user_properties,
        preserve_retain=route.preserve_retain,
        max_qos=route.max_qos,
        persist=bridge.persist,
        count_hops=bridge.loop_prevention_enabled,
        hops_unsaid=_hops_unsaid(route, bridge),
        message_id=None if bridge.message_id_property is None else (bridge.message_id_property, life),
    )
