"""The outbox: rows land, are polled in order with a marker, leave when acknowledged, and wait again after a reset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehead.columns.batches import weight
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import PIECE_BYTES, Outbox, Strategy
from bridgehead.storage.polled import Polled
from bridgehead.storage.segments import FAN
from making.power import PowerEngine
from making.rows import numbered, numbers, outbox_rows


class Queue:
    """An outbox with rows numbered as they land."""

    def __init__(
        self,
        max_rows: int = 1_000_000,
        max_bytes: int = 1 << 30,
        strategy: Strategy = "discard",
        engine: MemoryEngine | None = None,
    ) -> None:
        self.engine = engine or MemoryEngine()
        self.outbox = Outbox("r", self.engine, max_rows, max_bytes, strategy=strategy)
        self.next = 0

    def land(self, count: int, **given: Any) -> int:
        changes = Changes()
        entered = self.outbox.land(changes, outbox_rows(*numbered(self.next, count, **given)))
        self.next += count
        self.engine.write(changes)
        self.outbox.landed()
        return entered

    def poll(self, max_rows: int = 1000) -> list[int]:
        polled = self.outbox.poll(max_rows)
        return numbers(polled.batch) if polled else []

    def poll_all(self) -> list[int]:
        found: list[int] = []
        while self.outbox.has_waiting:
            found += self.poll()
        return found


@pytest.fixture
def queue() -> Queue:
    return Queue()


def seqs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_rows_are_polled_in_the_order_they_landed(queue: Queue) -> None:
    queue.land(3)
    queue.land(2)
    assert queue.poll(2) == [0, 1]
    assert queue.poll_all() == [2, 3, 4]


def test_a_polled_row_is_in_flight_and_not_polled_again(queue: Queue) -> None:
    queue.land(2)
    queue.poll()
    assert queue.outbox.in_flight == 2
    assert not queue.outbox.has_waiting
    assert queue.outbox.poll(10) is None


def test_a_reset_row_is_polled_again_first(queue: Queue) -> None:
    queue.land(3)
    queue.poll()
    queue.land(1)
    queue.outbox.reset(seqs(1))
    assert queue.poll() == [1]
    assert queue.poll() == [3]
    assert queue.outbox.in_flight == 4


def test_a_reset_says_that_something_waits(queue: Queue) -> None:
    queue.land(1)
    queue.poll()
    woken: list[bool] = []
    queue.outbox.on_waiting = lambda: woken.append(queue.outbox.has_waiting)
    queue.outbox.reset(seqs(0))
    assert woken == [True]


def test_a_reset_of_rows_that_are_done_changes_nothing(queue: Queue) -> None:
    queue.land(2)
    queue.poll()
    queue.outbox.acknowledge(seqs(0))
    queue.outbox.reset(seqs(0))
    assert not queue.outbox.has_waiting


def test_small_batches_that_were_polled_once_keep_their_rows_when_new_ones_land_after_a_reset(queue: Queue) -> None:
    """Merging must leave alone whatever has markers, also when a reset has moved the cursor back below it."""
    for _ in range(FAN - 1):
        queue.land(1)
    queue.poll_all()
    queue.outbox.reset(np.arange(FAN - 1))
    for _ in range(FAN):
        queue.land(1)
    assert queue.poll_all() == list(range(2 * FAN - 1))


def test_acknowledgements_survive_landing_after_a_reset(queue: Queue) -> None:
    for _ in range(FAN - 1):
        queue.land(2)
    queue.poll_all()
    queue.outbox.acknowledge(seqs(11, 20))
    queue.outbox.reset(seqs(0))
    queue.land(2)
    assert queue.outbox.depth == 2 * FAN - 2
    assert queue.poll_all() == [0, 2 * FAN - 2, 2 * FAN - 1]


def held(queue: Queue) -> bool:
    """DESIGN 13: entered = delivered + dropped + what is here."""
    outbox = queue.outbox
    return outbox.ledger.entered == outbox.ledger.delivered + sum(outbox.ledger.dropped.values()) + outbox.depth


def test_rows_beyond_the_limit_are_dropped_counted_and_still_add_up() -> None:
    queue = Queue(max_rows=3)
    assert queue.land(2) == 2
    assert queue.land(3) == 1
    assert queue.outbox.ledger.dropped == {"queue-full": 2}
    assert queue.outbox.ledger.entered == 5
    assert held(queue)
    assert queue.poll_all() == [0, 1, 2]


def test_room_comes_back_as_rows_are_done() -> None:
    queue = Queue(max_rows=3)
    queue.land(3)
    queue.poll()
    queue.outbox.acknowledge(seqs(0, 2))
    assert queue.land(3) == 2
    assert held(queue)
    assert queue.poll_all() == [3, 4]


def test_an_outbox_with_too_many_bytes_takes_nothing_until_they_leave() -> None:
    queue = Queue(max_bytes=10_000)
    queue.land(1, topic="t" * 10_000)
    assert queue.land(1) == 0
    queue.poll()
    queue.outbox.acknowledge(seqs(0))
    assert queue.outbox.weight == 0
    assert queue.land(1) == 1
    assert held(queue)


def test_a_row_that_never_goes_is_dropped_with_its_reason(queue: Queue) -> None:
    queue.land(3)
    queue.poll()
    queue.outbox.drop(seqs(1), "expired")
    queue.outbox.acknowledge(seqs(0))
    assert (queue.outbox.ledger.delivered, queue.outbox.ledger.dropped, queue.outbox.depth) == (1, {"expired": 1}, 1)
    assert held(queue)


def test_no_row_is_counted_twice(queue: Queue) -> None:
    queue.land(1)
    queue.poll()
    queue.outbox.acknowledge(seqs(0))
    queue.outbox.acknowledge(seqs(0))
    queue.outbox.drop(seqs(0), "expired")
    assert (queue.outbox.ledger.delivered, queue.outbox.ledger.dropped) == (1, {})


def test_rows_that_are_refused_before_they_enter_count_as_entered_and_dropped(queue: Queue) -> None:
    queue.outbox.refuse("offline-qos0", 4)
    assert queue.outbox.ledger.entered == 4
    assert held(queue)


def test_a_poll_is_bounded_in_bytes_but_hands_out_one_row_at_least(queue: Queue) -> None:
    changes = Changes()
    queue.outbox.land(changes, outbox_rows(*[{"payload": bytes(400_000)}] * 5, {"payload": bytes(3_000_000)}))
    queue.engine.write(changes)
    queue.outbox.landed()
    sizes = []
    while (polled := queue.outbox.poll(100)) is not None:
        sizes.append(polled.rows)
    assert sizes == [2, 2, 1, 1]


def test_what_lands_at_once_is_stored_in_pieces_of_which_each_is_read_by_itself(queue: Queue) -> None:
    """A batch of Spark may have 256 MiB. Each poll brought all of it into RAM, once more for each."""
    rows = numbered(0, 40)
    rows[20]["payload"] = b"20".ljust(2 * PIECE_BYTES)
    for row in rows[:20]:
        row["payload"] = row["payload"].ljust(PIECE_BYTES // 4)
    changes = Changes()
    assert queue.outbox.land(changes, outbox_rows(*rows)) == 40
    queue.engine.write(changes)
    queue.outbox.landed()
    sizes = [(batch.num_rows, weight(batch)) for _, batch in queue.outbox.pieces()]
    assert [count for count, _ in sizes] == [3] * 6 + [2, 1, 19], "a row that is larger is alone"
    assert [size for count, size in sizes if size > PIECE_BYTES] == [sizes[-2][1]]
    assert (sum(size for _, size in sizes), queue.outbox.depth) == (queue.outbox.weight, 40)
    assert queue.poll_all() == list(range(40))


def test_a_poll_stops_at_a_row_that_is_already_taken(queue: Queue) -> None:
    queue.land(6)
    queue.poll()
    queue.outbox.reset(seqs(0, 1, 4))
    assert queue.poll() == [0, 1]
    assert queue.poll() == [4]
    assert queue.poll() == []


def test_rows_come_back_by_number_in_the_order_asked_for(queue: Queue) -> None:
    for _ in range(3):
        queue.land(2)
    assert numbers(queue.outbox.rows(seqs(5, 0, 3, 2))) == [5, 0, 3, 2]


def test_a_batch_whose_rows_are_all_done_leaves_the_engine(queue: Queue) -> None:
    queue.land(2)
    queue.land(2)
    queue.poll_all()
    queue.outbox.acknowledge(seqs(0, 1, 2))
    assert list(queue.engine.numbers(("outbox", "r"))) == [2]
    queue.outbox.acknowledge(seqs(3))
    assert list(queue.engine.numbers(("outbox", "r"))) == []


def test_properties_count_against_the_bounds_like_payloads_do() -> None:
    queue = Queue(max_bytes=3_000_000)
    pair = {"key": "k" * 60_000, "value": "v" * 60_000}
    assert queue.land(10, user_properties=[pair] * 2) == 10
    assert queue.land(1) == 1
    assert [queue.outbox.poll(100).rows for _ in range(3)] == [4, 4, 2]  # type: ignore[union-attr]
    assert queue.land(10, content_type="c" * 65_000, response_topic="r" * 65_000) == 5
    assert queue.land(1) == 0


def test_a_message_larger_than_the_bound_enters_an_empty_outbox() -> None:
    for strategy in ("discard", "discard-oldest", "refuse"):
        queue = Queue(max_bytes=1000, strategy=strategy)
        assert queue.land(1, content_type="c" * 5000) == 1
        assert queue.land(1, content_type="c" * 5000) == (0 if strategy == "discard" else 1)


def test_discard_oldest_keeps_what_is_on_the_wire_and_the_newest() -> None:
    queue = Queue(max_rows=5, strategy="discard-oldest")
    queue.land(4)
    assert queue.poll(2) == [0, 1]
    queue.land(20)
    queue.outbox.reset(seqs(0, 1))
    assert queue.poll_all() == [0, 1, 21, 22, 23]
    assert (queue.outbox.ledger.entered, queue.outbox.ledger.dropped) == (24, {"queue-full": 19})


def test_discard_oldest_drops_the_new_ones_when_everything_is_on_the_wire() -> None:
    queue = Queue(max_rows=3, strategy="discard-oldest")
    queue.land(3)
    queue.poll_all()
    assert queue.land(2) == 0
    assert queue.outbox.ledger.dropped == {"queue-full": 2}


def test_discard_oldest_holds_the_bytes_within_the_bound_and_one_row() -> None:
    queue = Queue(max_bytes=1000, strategy="discard-oldest")
    for _ in range(50):
        queue.land(1, content_type="c" * 100)
    assert 1000 <= queue.outbox.live_weight < 1200
    kept = queue.poll_all()
    assert kept == list(range(50 - len(kept), 50))


def test_with_refuse_what_was_admitted_always_lands() -> None:
    queue = Queue(max_rows=2, strategy="refuse")
    assert (queue.land(5), queue.land(5)) == (5, 5)
    assert queue.outbox.ledger.dropped == {}


def test_whoever_waits_for_room_is_told_when_rows_leave(queue: Queue) -> None:
    told: list[int] = []
    queue.outbox.on_left = lambda: told.append(queue.outbox.depth)
    queue.land(3)
    queue.poll_all()
    queue.outbox.acknowledge(seqs(0))
    queue.outbox.acknowledge(seqs(0))
    queue.outbox.drop(seqs(1), "why")
    assert told == [2, 1]


def test_the_number_of_a_row_that_is_gone_touches_no_other(queue: Queue) -> None:
    queue.land(1)
    queue.poll()
    queue.outbox.acknowledge(seqs(0))
    queue.land(1)
    queue.outbox.acknowledge(seqs(0))
    for _ in range(FAN):
        queue.land(1)
    assert queue.poll_all() == list(range(1, FAN + 2))


def test_polled_rows_keep_their_numbers_when_they_are_split_and_when_some_were_left_out(queue: Queue) -> None:
    queue.land(5)
    polled = queue.outbox.poll(5)
    assert polled is not None
    lead, rest = polled.split(2)
    assert (lead.seqs.tolist(), rest.seqs.tolist()) == ([0, 1], [2, 3, 4])
    sparse = Polled(0, polled.batch.take([0, 2, 4]), seqs(0, 2, 4))
    lead, rest = sparse.split(1)
    assert (lead.seqs.tolist(), rest.seqs.tolist(), rest.first) == ([0], [2, 4], 2)


def test_it_says_which_rows_it_still_holds(queue: Queue) -> None:
    queue.land(3)
    queue.land(2)
    queue.poll_all()
    queue.outbox.acknowledge(seqs(0, 1, 2))
    queue.outbox.drop(seqs(3), "why")
    queue.land(2)
    assert queue.outbox.holds(seqs(0, 2, 3, 4, 5, 6, 7, 99)).tolist() == [False, False, False, True, True, True, False, False]
    assert queue.outbox.holds(seqs()).tolist() == []


def test_rows_that_are_in_flight_since_an_earlier_life_are_not_polled() -> None:
    engine = PowerEngine()
    Queue(engine=engine).land(4)
    found = Queue(engine=engine.crash())
    found.outbox.mark(seqs(0, 2))
    assert found.outbox.in_flight == 2
    assert found.poll_all() == [1, 3]
    found.outbox.reset(seqs(2))
    assert found.poll_all() == [2]
