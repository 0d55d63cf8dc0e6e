"""What waited for a route in another log goes through the query that it has got."""

from __future__ import annotations

from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.rehoming import rehome
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from spark.host import stored_rows

UNBOUNDED = 1 << 60


class House:
    """Routes a, b and c, whose rows wait in the shared log."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, UNBOUNDED)
        self.shared = self.journal.log(SHARED)
        self.ledgers = {route: Ledger(route) for route in "abc"}
        self.outboxes = {route: Outbox(route, self.engine, UNBOUNDED, UNBOUNDED, self.ledgers[route]) for route in "abc"}
        self.gate = Gate(self.engine, self.journal, self.outboxes, transformed={"b"})
        self.rules = {route: RouteRules(route, destination="to/{#}") for route in "abc"}
        changes = Changes()
        for first in range(0, 90, 30):
            self.shared.append(changes, stored_rows([b"%d" % i for i in range(first, first + 30)], ["t"], ["a", "b", "c"]))
        self.engine.write(changes)
        self.shared.publish()
        for ledger in self.ledgers.values():
            ledger.receive(30, 0)

    def landed(self, route: str) -> list[int]:
        found: list[int] = []
        while (polled := self.outboxes[route].poll(1000)) is not None:
            found += [int(payload) for payload in polled.batch.column("payload").to_pylist()]
        return found


def test_rows_of_a_route_with_its_own_query_move_to_its_log_in_order_and_the_others_land() -> None:
    house = House()
    home = house.journal.log("b")
    assert sum(rehome(house.gate.landing, house.shared, {"b": home}, house.rules)) == 30
    waiting = [int(payload) for _, rows in home.read(0, home.visible) for payload in rows.column("payload").to_pylist()]
    assert waiting == list(range(1, 90, 3))
    assert all(rows.column("topic").to_pylist()[0] == "t" for _, rows in home.read(0, home.visible))
    assert (house.landed("a"), house.landed("b"), house.landed("c")) == (list(range(0, 90, 3)), [], list(range(2, 90, 3)))
    assert (house.shared.waiting, house.shared.weight) == (0, 0)


def test_who_has_moved_still_waits_and_every_sum_holds() -> None:
    house = House()
    home = house.journal.log("b")
    sum(rehome(house.gate.landing, house.shared, {"b": home}, house.rules))
    for route, ledger in house.ledgers.items():
        assert ledger.received == ledger.consumed + house.journal.waiting_of(route)
        assert ledger.entered == house.outboxes[route].depth == ledger.consumed
    assert (house.journal.waiting_of("b"), house.ledgers["b"].transformed) == (30, {})


def test_a_log_in_which_nobody_is_a_stranger_is_left_alone() -> None:
    house = House()
    assert sum(rehome(house.gate.landing, house.shared, {}, house.rules)) == 0
    assert house.shared.waiting == 90
