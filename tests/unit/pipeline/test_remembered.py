"""Routes that are not in the file any more: their rules stay with their rows."""

from __future__ import annotations

from pathlib import Path

from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.remembered import bridges_of_routes, recalled, remember, removed_routes
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import ROUTE, Ledger
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.rows import stored_rows

MUCH = 1 << 30
BRIDGES = {"gone": "b"}
GONE = RouteRules("gone", destination="up/{#}", user_properties=(("site", "plant"),), max_qos=1)


def journal_with_rows(engine: RocksEngine, *routes: str) -> Journal:
    journal = Journal(engine, MUCH)
    changes = Changes()
    journal.log(SHARED).append(changes, stored_rows(*({"route": route} for route in routes)))
    engine.write(changes)
    return journal


def test_what_waits_in_the_journal_of_a_removed_route_lands_in_its_outbox_by_the_rules_it_had(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    remember(engine, [GONE], BRIDGES)
    journal_with_rows(engine, "gone", "gone")
    engine.close()
    engine = RocksEngine(tmp_path, sync=False)
    journal = Journal(engine, MUCH)
    removed = removed_routes(engine, journal, ["here"])
    assert removed == {"gone": GONE}
    outbox = Outbox("gone", engine, MUCH, MUCH, Ledger("gone", engine))
    InlineEngine(engine, Gate(engine, journal, {"gone": outbox}).landing, journal.log(SHARED), removed.values()).run()
    polled = outbox.poll(10)
    assert polled is not None
    assert polled.batch.column("topic").to_pylist() == ["up/t", "up/t"]
    assert journal.waiting_of("gone") == 0
    engine.close()


def test_a_route_that_is_in_the_file_is_not_removed(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    remember(engine, [GONE], BRIDGES)
    assert removed_routes(engine, Journal(engine, MUCH), ["gone"]) == {}
    engine.close()


def test_rows_without_rules_go_on_as_they_are(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    journal = journal_with_rows(engine, "never-said")
    assert removed_routes(engine, journal, []) == {"never-said": RouteRules("never-said")}
    engine.close()


def test_rules_that_change_are_remembered_and_what_is_not_known_of_them_is_passed_over(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    remember(engine, [GONE], BRIDGES)
    changed = RouteRules("gone", destination=None)
    remember(engine, [changed], BRIDGES)
    assert recalled(engine, "gone") == changed
    state = {**engine.state((ROUTE, "gone")), "of_a_later_version": 1}
    engine.write(Changes(state={(ROUTE, "gone"): state}))
    assert recalled(engine, "gone") == changed
    engine.close()


def test_in_memory_nothing_is_remembered() -> None:
    engine = MemoryEngine()
    remember(engine, [GONE], BRIDGES)
    assert recalled(engine, "gone") is None


def test_whose_a_route_was_is_known_in_the_next_life(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    remember(engine, [GONE], BRIDGES)
    engine.close()
    engine = RocksEngine(tmp_path, sync=False)
    assert bridges_of_routes(engine) == BRIDGES
    engine.close()
