"""Plans: what happens to a message, decided once per distinct topic and looked up in columns after that.

Used on both sides of the journal's door: by the broker for what clients publish, by a bridge for what its remote sends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.wire.topics import TopicTable

P = TypeVar("P", bound=Hashable)
Rows: TypeAlias = npt.NDArray[np.int64] | None
TOPIC_LIMIT: Final = 100_000
"""Distinct topics remembered; beyond it the table starts anew."""


class TopicPlans(Generic[P]):
    """Groups the rows of a batch by the plan of their topic."""

    def __init__(self, resolve: Callable[[str], P]) -> None:
        self._resolve = resolve
        self._table = TopicTable(TOPIC_LIMIT)
        self._generation = self._table.generation
        self._plans: list[P] = []
        self._numbers: dict[P, int] = {}
        self._plan_of_topic = np.zeros(64, np.int32)

    def invalidate(self) -> None:
        """Something that plans depend on has changed."""
        self._table = TopicTable(TOPIC_LIMIT)
        self._plans, self._numbers = [], {}

    @property
    def known(self) -> list[P]:
        """The plans so far, by number; another list when numbers begin anew."""
        return self._plans

    def look_up(self, topics: pa.Array) -> npt.NDArray[np.int32]:
        """The number of the plan of each topic."""
        ids, new = self._table.lookup(topics)
        if self._table.generation != self._generation:
            # The table started anew while looking up: numbers of before mean other topics now.
            self._generation = self._table.generation
            self._plans, self._numbers = [], {}
        for topic_id, topic in new:
            self._learn(topic_id, topic)
        return self._plan_of_topic[ids]

    def groups(self, topics: pa.Array) -> list[tuple[P, Rows]]:
        """(plan, rows in order) for every plan among these topics; None stands for all rows."""
        plans = self.look_up(topics)
        first = plans[0]
        if (plans == first).all():
            return [(self._plans[first], None)]
        return [(self._plans[number], np.flatnonzero(plans == number)) for number in np.unique(plans)]

    def _learn(self, topic_id: int, topic: str) -> None:
        plan = self._resolve(topic)
        number = self._numbers.get(plan)
        if number is None:
            number = self._numbers[plan] = len(self._plans)
            self._plans.append(plan)
        if topic_id >= len(self._plan_of_topic):
            self._plan_of_topic = np.resize(self._plan_of_topic, 2 * topic_id)
        self._plan_of_topic[topic_id] = number


def in_order(parts: list[Rows]) -> Rows:
    """Rows of several plans as one selection, in their order of arrival; None stands for all rows."""
    if len(parts) == 1:
        return parts[0]
    chosen = [rows for rows in parts if rows is not None]
    return np.sort(np.concatenate(chosen))
