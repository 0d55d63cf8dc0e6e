"""How workers share the tests: file by file, and Spark in one lane.

A start of Spark takes every core there is for seconds, and the tests around it mostly wait. So one worker goes through the
tests with Spark while the others do the rest, unit tests first; whoever runs out helps the others. The tests of a file stay
together, because they share what they start, but those of it that need Spark are a group of their own. ``xdist_group``
names a group across files.

The workers know the marks, and the controller shares out the tests; but all that it is told of a test is an id. So the ids
that it is told, and only these, carry the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SPARK = "spark:"
"""What the group of tests with Spark begins with."""

_MARK = "@"

FIRST = ("unit", "property", "spark")
"""Folders whose tests tell most in the least time; then files that take minutes, behind which nobody should have to wait."""


def is_spark(group: str) -> bool:
    return group.startswith(SPARK)


def group_of(item: pytest.Item) -> str:
    shared = item.get_closest_marker("xdist_group")
    name = item.nodeid.partition("::")[0] if shared is None else str(shared.args[0])
    return name if item.get_closest_marker("spark") is None else SPARK + name


def rank(item: pytest.Item) -> int:
    """The place of a test's folder in the order of a run."""
    folders = item.nodeid.partition("::")[0].split("/")
    return next((place for place, folder in enumerate(FIRST) if folder in folders), len(FIRST))


def choose(groups: Iterable[str], *, spark_elsewhere: bool) -> str:
    """The next group for a worker: Spark first, unless another worker has Spark and there is something else to do."""
    waiting = list(groups)
    return next((group for group in waiting if is_spark(group) is not spark_elsewhere), waiting[0])


@dataclass(frozen=True)
class Labelled:
    """What the controller is told of a test."""

    nodeid: str

    @classmethod
    def of(cls, item: pytest.Item) -> Labelled:
        return cls(f"{item.nodeid}{_MARK}{group_of(item)}")


class Lanes(LoadScopeScheduling):
    """Hands out one group after the other, each to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.rpartition(_MARK)[2]

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(choose(self.workqueue, spark_elsewhere=self._spark_elsewhere(node)), last=False)
        super()._assign_work_unit(node)

    def _spark_elsewhere(self, node: WorkerController) -> bool:
        others = (units for worker, units in self.assigned_work.items() if worker is not node)
        return any(is_spark(group) and not all(done.values()) for units in others for group, done in units.items())
