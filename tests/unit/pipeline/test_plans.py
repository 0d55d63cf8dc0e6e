"""Plans by topic: resolved once, looked up after that, forgotten when something changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bridgehead.pipeline import plans
from bridgehead.pipeline.plans import TopicPlans, in_order


class Resolver:
    """The plan of a topic is its first letter."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = lambda topic: topic[0]
        self.plans: TopicPlans[str] = TopicPlans(self._resolve)

    def _resolve(self, topic: str) -> str:
        self.asked.append(topic)
        return self.answer(topic)

    def groups(self, *topics: str) -> dict[str, list[int] | None]:
        found = self.plans.groups(pa.array(topics, pa.string()))
        return {plan: None if rows is None else rows.tolist() for plan, rows in found}


def test_a_topic_is_resolved_once() -> None:
    resolver = Resolver()
    resolver.groups("a1", "a1", "b1")
    resolver.groups("b1", "a1", "a2")
    assert resolver.asked == ["a1", "b1", "a2"]


def test_rows_are_grouped_by_plan_in_their_order() -> None:
    assert Resolver().groups("a1", "b1", "a2", "a1", "b2") == {"a": [0, 2, 3], "b": [1, 4]}


def test_rows_that_share_one_plan_are_not_chosen_one_by_one() -> None:
    assert Resolver().groups("a1", "a2", "a3") == {"a": None}


def test_a_change_is_seen_at_once() -> None:
    resolver = Resolver()
    resolver.groups("a1", "b1")
    resolver.answer = lambda topic: topic[1]
    assert resolver.groups("a1", "b1") == {"a": [0], "b": [1]}
    resolver.plans.invalidate()
    assert resolver.groups("a1", "b1") == {"1": None}


def test_more_topics_than_are_remembered_are_still_planned_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "TOPIC_LIMIT", 50)
    resolver = Resolver()
    for start in range(0, 400, 30):
        topics = [f"{'ab'[i % 2]}{i}" for i in range(start, start + 30)]
        expected = {"a": [i for i in range(30) if i % 2 == 0], "b": [i for i in range(30) if i % 2]}
        assert resolver.groups(*topics) == expected
        resolver.answer = lambda topic: topic[0]
    assert len(resolver.plans._plans) <= 50


def test_forgetting_and_invalidating_may_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "TOPIC_LIMIT", 4)
    resolver = Resolver()
    for _ in range(3):
        resolver.groups(*[f"a{i}" for i in range(6)])
        resolver.plans.invalidate()
        assert resolver.groups("b9", "a0") == {"b": [0], "a": [1]}


def test_selections_of_several_plans_become_one_in_the_order_of_arrival() -> None:
    parts = [np.array([1, 5]), np.array([0, 7]), np.array([3])]
    joined = in_order(list(parts))
    assert joined is not None
    assert joined.tolist() == [0, 1, 3, 5, 7]
    assert in_order([None]) is None
