"""The parts of routes through changes: doors and outboxes stay, what is removed is put aside, what is purged is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bridgehead.node.routes import INLINE, Routes, live
from bridgehead.settings.load import from_document
from bridgehead.settings.model import Settings
from bridgehead.settings.route import route_id
from bridgehead.storage.deadletters import Deaths
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.rocks import RocksEngine
from making.rows import numbered, outbox_rows

ONE, TWO = (route_id("b", "push", [f"{name}/#"], None) for name in ("one", "two"))


def settings(*rules: dict[str, Any], **bridge: Any) -> Settings:
    document = {"id": "b", "host": "h", "localSubscriptions": list(rules), **bridge}
    return from_document({"node": "edge", "pipeline": {"engine": "inline"}, "bridges": [document]})


def rule(name: str, **given: Any) -> dict[str, Any]:
    return {"filters": [f"{name}/#"], **given}


def routes_of(engine: Engine, now: Settings) -> Routes:
    return Routes(now, engine, Journal(engine, 1 << 30), lambda: None)


def become(routes: Routes, now: Settings, stopped: tuple[str, ...] = ()) -> None:
    routes.change(routes.plan(now, stopped))


def land(engine: Engine, routes: Routes, route: str, rows: int) -> None:
    changes = Changes()
    routes.outboxes[route].land(changes, outbox_rows(*numbered(0, rows, qos=1)))
    engine.write(changes)
    routes.outboxes[route].landed()


def test_a_route_that_stays_keeps_its_door_and_its_outbox_whatever_changes_about_it() -> None:
    engine = MemoryEngine()
    routes = routes_of(engine, settings(rule("one"), rule("two")))
    door, outbox, pushes = routes.doors[ONE], routes.outboxes[ONE], routes.pushes
    become(routes, settings(rule("one", queueLimit=5, strategy="refuse", maxQoS=1, excludes=["one/x"]), persist=False))
    assert (routes.doors[ONE], routes.outboxes[ONE]) == (door, outbox)
    assert (outbox.max_rows, outbox.strategy, routes.rules[ONE].max_qos) == (5, "refuse", 1)
    assert (door.rule.persist, door.rule.excludes, door.room is not None) == (False, ("one/x",), True)
    assert pushes == [door]
    become(routes, settings(rule("one", engine="spark")))
    assert (door.log.name, door.room) == (SHARED, None)


def test_a_route_that_goes_leaves_its_outbox_aside_and_its_door_leads_where_the_node_moves_rows_on() -> None:
    engine = MemoryEngine()
    routes = routes_of(engine, settings(rule("one", strategy="refuse"), rule("two")))
    door = routes.doors[ONE]
    land(engine, routes, ONE, 3)
    become(routes, settings(rule("two")))
    assert (list(routes.removed), routes.removed_of("b"), list(routes.doors)) == ([ONE], [ONE], [TWO])
    assert (door.log.name, door.room, routes.outboxes[ONE].depth) == (INLINE, None, 3)
    become(routes, settings(rule("one"), rule("two")))
    assert (list(routes.removed), routes.outboxes[ONE].depth) == ([], 3)


def test_whose_a_removed_route_was_is_known_in_the_next_life_too(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    routes_of(engine, settings(rule("one")))
    engine.close()
    engine = RocksEngine(tmp_path, sync=False)
    assert routes_of(engine, settings(rule("two"))).removed_of("b") == [ONE]
    engine.close()


def test_nothing_is_left_of_what_is_purged(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    routes = routes_of(engine, settings(rule("one"), rule("two")))
    for route in (ONE, TWO):
        land(engine, routes, route, 5)
        outbox = routes.outboxes[route]
        outbox.poll(2)
        outbox.acknowledge(np.array([0]))
        outbox.bury(Deaths(np.array([1]), ["refused-0x87"], [1]), 0)
    become(routes, settings(rule("two")))
    routes.purge([ONE])
    engine.close()
    engine = RocksEngine(tmp_path, sync=False)
    assert [name for name, _ in engine.states(()) if ONE in name] == []
    assert [list(engine.numbers((shelf, ONE))) for shelf in ("outbox", "dead")] == [[], []]
    again = routes_of(engine, settings(rule("one"), rule("two")))
    assert (again.outboxes[ONE].depth, again.outboxes[ONE].entered, len(again.outboxes[ONE].dead)) == (0, 0, 0)
    assert (again.outboxes[TWO].depth, again.outboxes[TWO].entered, len(again.outboxes[TWO].dead)) == (3, 5, 1)
    engine.close()


def test_the_doors_of_a_stopped_bridge_are_closed_if_it_does_not_queue() -> None:
    routes = routes_of(MemoryEngine(), settings(rule("one")))
    become(routes, settings(rule("one")), stopped=("b",))
    assert not routes.doors[ONE].closed
    become(routes, settings(rule("one"), queueWhileStopped=False), stopped=("b",))
    assert routes.doors[ONE].closed
    assert routes.doors[ONE].excludes_match("one/x")
    become(routes, settings(rule("one"), queueWhileStopped=False))
    assert not routes.doors[ONE].closed


def test_a_mapping_that_lives_is_the_same_with_another_content() -> None:
    one = {"a": 1}
    live(one, {"b": 2})
    assert one == {"b": 2}
