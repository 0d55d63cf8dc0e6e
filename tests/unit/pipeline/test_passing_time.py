"""Time passes for a query over arrivals, as far as the node knows that nothing older is to come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyarrow import flight

from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.passingtime import MARGIN, PassingTime

LATENESS = 5_000


class Tracker:
    """Spark's, as far as it is asked."""

    def __init__(self, mark: int) -> None:
        self.mark = mark

    def currentWatermark(self) -> int:
        return self.mark

    def setWatermark(self, mark: int) -> None:
        self.mark = mark


class Node:
    def __init__(self, now: int | None) -> None:
        self.now = now

    def idle(self, log: str) -> int | None:
        return self.now


class AwayNode(Node):
    def idle(self, log: str) -> int | None:
        raise flight.FlightUnavailableError("away")


def looked(node: Node, tracker: Tracker, state_rows: int = 1) -> int:
    progress = SimpleNamespace(stateOperators=[SimpleNamespace(numRowsTotal=state_rows)])
    stream = SimpleNamespace(watermarkTracker=lambda: tracker)
    query: Any = SimpleNamespace(lastProgress=progress, _jsq=SimpleNamespace(streamingQuery=lambda: stream))
    PassingTime(query, cast(NodeClient, node), "log", LATENESS).look()
    return tracker.mark


def test_the_watermark_follows_the_clock_of_a_node_in_which_nothing_waits() -> None:
    assert looked(Node(100_000), Tracker(50_000)) == 100_000 - LATENESS - MARGIN


@pytest.mark.parametrize("node", [Node(None), AwayNode(None)], ids=["rows wait", "away"])
def test_it_stands_still_while_rows_wait_or_nobody_knows(node: Node) -> None:
    assert looked(node, Tracker(50_000)) == 50_000


def test_it_never_goes_back_and_does_not_move_for_a_moment() -> None:
    assert looked(Node(100_000), Tracker(99_000)) == 99_000
    assert looked(Node(100_000), Tracker(93_500)) == 93_500


def test_it_stands_still_while_nothing_is_remembered() -> None:
    assert looked(Node(100_000), Tracker(50_000), state_rows=0) == 50_000
