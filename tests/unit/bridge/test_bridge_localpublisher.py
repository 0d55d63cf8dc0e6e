"""The local end of a pull route: its outbox rows become publishes of the local broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.bridge.localpublisher import TURN_ROWS, LocalPublisher
from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import WIRE
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.device import turn
from making.rows import numbered, outbox_rows


class End:
    def __init__(self, max_age: float | None = None) -> None:
        self.engine = MemoryEngine()
        self.outbox = Outbox("r", self.engine, 1_000_000, 1 << 30)
        self.published: list[Batch] = []
        self.writes: list[Changes] = []
        self.room = 1 << 60
        self.publisher = LocalPublisher(self.outbox, self._publish, max_age)

    def _publish(self, batch: Batch, taken: Callable[[Changes, int, int], None]) -> int:
        rows = min(batch.num_rows, self.room)
        self.room -= rows
        if rows:
            self.published.append(batch.slice(0, rows))
        self.writes.append(Changes())
        taken(self.writes[-1], rows, 0)
        self.engine.write(self.writes[-1])
        return int(rows)

    def land(self, *rows: dict[str, Any]) -> None:
        changes = Changes()
        self.outbox.land(changes, outbox_rows(*rows))
        self.engine.write(changes)
        self.outbox.landed()

    def rows(self) -> list[dict[str, Any]]:
        assert all(batch.schema == WIRE for batch in self.published)
        return [row for batch in self.published for row in batch.to_pylist()]


async def test_rows_are_published_in_order_at_their_wire_qos_and_are_delivered_then() -> None:
    end = End()
    end.land(*numbered(0, 3, qos=2, wire_qos=1, retain=True, content_type="t"))
    end.land(*numbered(3, 2))
    await turn()
    await turn()
    rows = end.rows()
    assert [int(row["payload"]) for row in rows] == [0, 1, 2, 3, 4]
    assert (rows[0]["qos"], rows[0]["retain"], rows[0]["content_type"]) == (1, True, "t")
    assert (end.outbox.ledger.delivered, end.outbox.depth) == (5, 0)


async def test_rows_leave_the_outbox_in_the_write_that_publishes_them() -> None:
    end = End()
    end.land(*numbered(0, 3))
    await turn()
    assert [write.drops for write in end.writes] == [[(("outbox", "r"), 0)]]


async def test_a_long_backlog_is_published_turn_by_turn() -> None:
    end = End()
    end.land(*[{}] * (2 * TURN_ROWS + 1))
    await turn()
    await turn()
    assert [batch.num_rows for batch in end.published] == [TURN_ROWS, TURN_ROWS, 1]


async def test_an_expired_row_is_dropped_and_the_others_lose_the_time_they_waited() -> None:
    end = End()
    now = now_us()
    end.land(
        {"message_expiry": 5, "received_at": now - 60_000_000},
        {"message_expiry": 100, "received_at": now - 60_500_000},
        {"received_at": now - 60_000_000},
    )
    await turn()
    assert [row["message_expiry"] for row in end.rows()] == [40, None]
    assert (end.outbox.ledger.dropped, end.outbox.ledger.delivered) == ({"expired": 1}, 2)


async def test_nothing_but_expired_rows_publishes_nothing_and_the_next_row_still_comes() -> None:
    end = End()
    end.land({"message_expiry": 1, "received_at": 0})
    end.land({"payload": b"later"})
    await turn()
    assert [row["payload"] for row in end.rows()] == [b"later"]
    assert end.outbox.depth == 0


async def test_a_row_older_than_the_route_allows_is_dropped() -> None:
    end = End(max_age=60.0)
    now = now_us()
    end.land(
        {"payload": b"old", "received_at": now - 61_000_000},
        {"payload": b"young", "received_at": now - 59_000_000},
    )
    await turn()
    assert [row["payload"] for row in end.rows()] == [b"young"]
    assert (end.outbox.ledger.dropped, end.outbox.depth) == ({"too-old": 1}, 0)


async def test_rows_without_room_in_the_local_broker_wait_and_go_on_in_order() -> None:
    end = End()
    end.room = 2
    end.land(*numbered(0, 5))
    await turn()
    end.land(*numbered(5, 1))
    await turn()
    assert [int(row["payload"]) for row in end.rows()] == [0, 1]
    assert (end.outbox.depth, end.outbox.in_flight) == (4, 0)
    end.room = 100
    end.publisher.room_again()
    await turn()
    assert [int(row["payload"]) for row in end.rows()] == [0, 1, 2, 3, 4, 5]
