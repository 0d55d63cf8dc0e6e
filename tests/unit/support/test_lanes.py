"""Which worker gets which tests."""

from __future__ import annotations

import pytest

from support.lanes import choose, group_of, rank

PLAIN, OTHER, SPARK, MORE_SPARK = "tests/a.py", "tests/b.py", "spark:tests/a.py", "spark:world"


@pytest.mark.parametrize(
    ("waiting", "spark_elsewhere", "chosen"),
    [
        ([PLAIN, SPARK, OTHER], False, SPARK),
        ([PLAIN, SPARK, OTHER], True, PLAIN),
        ([SPARK, MORE_SPARK], True, SPARK),
        ([PLAIN, OTHER], False, PLAIN),
    ],
    ids=["Spark has a worker", "but one only", "unless nothing else is left", "in order"],
)
def test_the_next_group_of_a_worker(waiting: list[str], spark_elsewhere: bool, chosen: str) -> None:
    assert choose(waiting, spark_elsewhere=spark_elsewhere) == chosen


def test_a_file_is_a_group(request: pytest.FixtureRequest) -> None:
    assert group_of(request.node) == "tests/unit/support/test_lanes.py"
    assert rank(request.node) == 0


@pytest.mark.xdist_group("a-name-of-its-own")
def test_a_group_can_have_a_name(request: pytest.FixtureRequest) -> None:
    assert group_of(request.node) == "a-name-of-its-own"


def test_what_needs_spark_is_a_group_of_its_own(request: pytest.FixtureRequest) -> None:
    request.node.add_marker("spark")
    assert group_of(request.node) == "spark:tests/unit/support/test_lanes.py"
