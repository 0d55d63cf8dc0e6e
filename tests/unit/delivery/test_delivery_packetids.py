"""The record of QoS 2 ids: what an earlier life had half-way is found again, by the names of its routes."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.delivery.packetids import PAGE, PacketIds
from bridgehead.wire.flow import AWAIT_PUBCOMP, AWAIT_PUBREC, NOBODY, OutboundFlow
from making.power import PowerEngine

LAST = 200
NAME = ("ids", "bridge", "cloud")


class Life:
    def __init__(self, engine: PowerEngine, routes: tuple[str, ...] = ("a", "b"), client: str = "edge") -> None:
        self.engine = engine
        self.flow = OutboundFlow(LAST, 1, LAST)
        self.record = PacketIds(engine, NAME, [client, [["h", 1883]]], routes, self.flow, LAST)
        self.recalled = self.record.recall()

    def begin(self) -> Life:
        self.flow.restore(self.recalled.kept)
        self.record.begin()
        return self

    def take(self, owner: int, first: int, *qos: int) -> None:
        ids = self.flow.take(owner, np.arange(first, first + len(qos)), np.array(qos, np.uint8))
        self.record.took(ids[np.array(qos) == 2])

    def answer(self, *acks: tuple[int, int, int]) -> bool:
        result = self.flow.acks(np.array(acks, np.int64), 5)
        return self.record.answered(result.received, result.done_id)

    @property
    def kept(self) -> list[tuple[int, int, int, int]]:
        """(id, owner, sequence, state) of each that was found."""
        return list(zip(*(column.tolist() for column in self.recalled.kept), strict=True))

    @property
    def pages(self) -> list[str]:
        return [name[-1] for name, _ in self.engine.states(NAME) if name != NAME]


@pytest.fixture
def life() -> Life:
    return Life(PowerEngine()).begin()


def test_only_what_is_half_way_through_qos_2_is_found_again_in_order_of_routes_and_rows(life: Life) -> None:
    life.take(1, 50, 2, 1, 2)
    life.take(0, 7, 2)
    assert life.answer((5, 3, 0)), "PUBREC is synced before its PUBREL leaves"
    after = Life(life.engine.crash())
    assert after.kept == [(4, 0, 7, AWAIT_PUBREC), (1, 1, 50, AWAIT_PUBREC), (3, 1, 52, AWAIT_PUBCOMP)]
    assert (after.recalled.first, after.recalled.ours) == (False, True)


def test_what_was_not_sent_again_yet_is_found_by_the_life_after_the_next(life: Life) -> None:
    life.take(0, 7, 2)
    after = Life(life.engine.crash()).begin()
    after.take(0, 8, 2)
    assert Life(after.engine.crash()).kept == [(1, 0, 7, AWAIT_PUBREC), (2, 0, 8, AWAIT_PUBREC)]


def test_routes_are_known_by_name_and_one_that_is_gone_is_nobodys(life: Life) -> None:
    life.take(0, 7, 2)
    life.take(1, 9, 2)
    after = Life(life.engine.crash(), ("c", "b")).begin()
    assert after.kept == [(1, NOBODY, 7, AWAIT_PUBREC), (2, 1, 9, AWAIT_PUBREC)]
    assert Life(after.engine.crash(), ("b", "c")).kept == [(1, NOBODY, 7, AWAIT_PUBREC), (2, 0, 9, AWAIT_PUBREC)]


def test_a_first_start_and_another_session_are_told_apart(life: Life) -> None:
    assert life.recalled.first
    life.take(0, 7, 2)
    after = Life(life.engine.crash(), client="another")
    assert (after.recalled.first, after.recalled.ours, len(after.kept)) == (False, False, 1)


def test_a_batch_writes_its_pages_once_and_qos_1_writes_none(life: Life) -> None:
    before = len(life.engine.written)
    life.take(0, 0, *[2] * (2 * PAGE))
    assert len(life.engine.written) == before + 1
    assert life.pages == ["0000", "0001", "0002"]
    life.flow.take(0, np.arange(2 * PAGE, 2 * PAGE + 3), np.full(3, 1, np.uint8))
    assert not life.answer((4, 2 * PAGE + 1, 0))
    assert len(life.engine.written) == before + 1


def test_every_id_up_to_the_last_is_found_again_though_the_last_page_is_short(life: Life) -> None:
    life.take(0, 1000, *[2] * LAST)
    life.answer((5, 1, 0), (5, LAST, 0))
    assert LAST % PAGE != PAGE - 1
    kept = Life(life.engine.crash()).kept
    assert [each[0] for each in kept] == list(range(1, LAST + 1))
    assert [each[2] for each in kept] == list(range(1000, 1000 + LAST))
    assert [each[0] for each in kept if each[3] == AWAIT_PUBCOMP] == [1, LAST]


def test_ids_that_are_free_again_leave_with_the_next_write(life: Life) -> None:
    life.take(0, 0, *[2] * (2 * PAGE))
    life.answer(*((5, n, 0) for n in range(1, PAGE)))
    before = len(life.engine.written)
    assert not life.answer(*((7, n, 0) for n in range(1, PAGE)))
    assert len(life.engine.written) == before, "a stale entry does no harm"
    life.take(0, 2 * PAGE, 2)
    assert life.pages == ["0001", "0002"]
    assert len(Life(life.engine.crash()).kept) == PAGE + 2


def test_a_record_that_begins_anew_forgets_everything(life: Life) -> None:
    life.take(0, 0, 2, 2)
    assert life.record.known
    life.flow.clear()
    life.record.begin()
    assert not life.record.known
    assert Life(life.engine.crash()).kept == []
