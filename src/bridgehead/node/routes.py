"""The parts of every route: its rules, its door, its outbox; and of the routes that are not configured any more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bridgehead.pipeline.door import Door, DoorRule, into_the_log
from bridgehead.pipeline.jobconfig import TransformRule
from bridgehead.pipeline.remembered import bridges_of_routes, remember, removed_routes
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route
from bridgehead.settings.transform import Transform
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import LEDGER, ROUTE, Ledger, settle
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.topictemplate import read_template

T = TypeVar("T")

UNBOUNDED: Final = 1 << 62
"""The bounds of a removed route's outbox: what lands there was accepted when the route was there."""

INLINE: Final = "inline"
"""The log of all routes that run in the node."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What settings say of routes, by their ids."""

    configured: dict[str, Route]
    bridges: dict[str, Bridge]  # by their own ids
    rules: dict[str, RouteRules]
    transforms: dict[str, TransformRule]
    closed: set[str] = field(default_factory=set)  # bridges that queue nothing at this time

    def door_rule(self, route: Route) -> DoorRule:
        return _door_rule(route, self.bridges[route.bridge])


class Routes:
    """By the id of each route. The mappings are changed in place: whoever was given one sees what is there now.

    A door and an outbox stay what they are as long as their route does, whatever else changes about it. A route that is
    configured no more is ``removed``: its outbox stays as it is, unsent, until the route comes back or somebody purges it.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        journal: Journal,
        room_again: Callable[[], None],
        stopped: Container[str] = (),
    ) -> None:
        """``room_again``: rows have left an outbox whose publishers may wait for that. ``stopped``: bridges, by their ids."""
        self._engine = engine
        self._journal = journal
        self._room_again = room_again
        self._life = f"{settings.node}:{engine.incarnation}"
        plan = self.plan(settings, stopped)
        self.configured, self.rules, self.transforms = plan.configured, plan.rules, plan.transforms
        self._remember()
        self.removed = removed_routes(engine, journal, self.rules)
        self.bridge_of = bridges_of_routes(engine) | {route.id: route.bridge for route in self.configured.values()}
        self.outboxes = {route.id: self._outbox(route) for route in self.configured.values()}
        for removed in self.removed:
            self.outboxes[removed] = Outbox(removed, engine, UNBOUNDED, UNBOUNDED, Ledger(removed, engine))
        settle(engine, [outbox.ledger for outbox in self.outboxes.values()], journal.waiting_of)
        self.doors: dict[str, Door] = {}
        self.pushes: list[Door] = []  # what the local broker distributes to
        self._set_doors(plan)

    def plan(self, settings: Settings, stopped: Container[str]) -> Plan:
        """What would be if these were the settings, and these bridges stopped."""
        bridges = {bridge.id: bridge for bridge in settings.bridges}
        configured = {route.id: route for route in settings.routes()}
        return Plan(
            configured=configured,
            bridges=bridges,
            closed={each.id for each in settings.bridges if each.id in stopped and not each.queue_while_stopped},
            rules={route.id: _rules(route, bridges[route.bridge], self._life) for route in configured.values()},
            transforms={route.id: transform_rule(route.transform) for route in configured.values() if route.transform},
        )

    def change(self, plan: Plan) -> None:
        """From now on these. No row moves: what waits in the log that a route had before is for the engines to bring along."""
        for gone in [route for route in self.configured if route not in plan.configured]:
            self._remove(gone)
        live(self.configured, plan.configured)
        live(self.rules, plan.rules)
        live(self.transforms, plan.transforms)
        self._remember()
        for route in self.configured.values():
            self.bridge_of[route.id] = route.bridge
            self.removed.pop(route.id, None)
            if route.id in self.outboxes:
                self._bound(self.outboxes[route.id], route)
            else:
                self.outboxes[route.id] = self._outbox(route)
        self._set_doors(plan)

    def _remove(self, route: str) -> None:
        """A consumer whose connection is about to end may still bring rows: they take the way that the node itself moves on."""
        self.removed[route] = self.rules[route]
        outbox, door = self.outboxes[route], self.doors.pop(route)
        outbox.max_rows = outbox.max_bytes = UNBOUNDED
        outbox.strategy, outbox.on_left = "discard", _nothing
        door.room, door.log, door.pass_through = None, self._journal.log(INLINE), into_the_log

    def purge(self, routes: Collection[str]) -> None:
        """Nothing is left of these removed routes; their rows have left the journal before."""
        for route in routes:
            changes = Changes()
            outbox = self.outboxes.pop(route)
            outbox.give_up(changes)
            outbox.dead.give_up(changes)
            changes.state[ROUTE, route] = changes.state[LEDGER, route] = None
            self._engine.write(changes)
            del self.removed[route]
            self.bridge_of.pop(route, None)

    def removed_of(self, bridge: str) -> list[str]:
        """The routes that this bridge had, and whose queues are still here."""
        return [route for route in self.removed if self.bridge_of.get(route) == bridge]

    def _remember(self) -> None:
        remember(self._engine, self.rules.values(), {route.id: route.bridge for route in self.configured.values()})

    def _set_doors(self, plan: Plan) -> None:
        for route in self.configured.values():
            outbox, log = self.outboxes[route.id], self._journal.log(log_name(route))
            door = self.doors.setdefault(route.id, Door(plan.door_rule(route), log, outbox.ledger))
            door.rule, door.log = plan.door_rule(route), log
            door.closed = route.bridge in plan.closed
            refuses = route.strategy == "refuse"
            rules = None if route.id in plan.transforms else plan.rules[route.id]
            if not refuses:
                door.room = None
            elif door.room is None or door.room.rules != rules:
                door.room = Room(outbox, self._journal, rules)
            outbox.on_left = self._room_again if refuses else _nothing
        self.pushes[:] = self.doors_of("push")

    def of(self, bridge: str) -> list[Route]:
        """The routes of a bridge, in the order of its rules."""
        return [route for route in self.configured.values() if route.bridge == bridge]

    def doors_of(self, direction: str, bridge: str | None = None) -> list[Door]:
        """The doors of all routes of a direction, or of those of one bridge."""
        wanted = (route for route in self.configured.values() if route.direction == direction)
        return [self.doors[route.id] for route in wanted if bridge in (None, route.bridge)]

    def _outbox(self, route: Route) -> Outbox:
        outbox = Outbox(route.id, self._engine, UNBOUNDED, UNBOUNDED, Ledger(route.id, self._engine))
        self._bound(outbox, route)
        return outbox

    @staticmethod
    def _bound(outbox: Outbox, route: Route) -> None:
        assert route.queue_limit is not None
        assert route.max_queue_bytes is not None
        assert route.strategy is not None
        outbox.max_rows, outbox.max_bytes, outbox.strategy = route.queue_limit, route.max_queue_bytes, route.strategy


def _nothing() -> None:
    """Nobody waits for room there."""


def live(mapping: dict[str, T], now: Mapping[str, T]) -> None:
    """The same mapping with another content."""
    mapping.clear()
    mapping.update(now)


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
