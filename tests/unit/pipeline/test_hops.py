"""The hop count as other bridges know it: what is read, and who may cross another bridge."""

from __future__ import annotations

import pytest

from bridgehead.pipeline.hops import HOP_COUNT, below_hops, hop_counts
from making.rows import wire_rows


def counts(*values: str) -> list[int]:
    pairs = [{"key": HOP_COUNT, "value": value} for value in values]
    return hop_counts(wire_rows({"user_properties": pairs}).column("user_properties")).tolist()


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ((), 0),
        (("3",), 3),
        (("-2",), -2),
        (("x",), 0),
        (("",), 0),
        (("1.5",), 0),
        (("3000000000",), 0),
        (("9" * 5000,), 0),
        (("-2147483648",), -2147483648),
        (("+4",), 4),
        (("007",), 7),
        ((" 4",), 0),
        (("1_0",), 0),
        (("2", "7"), 2),
        (("x", "7"), 0),
    ],
)
def test_the_first_property_counts_and_what_is_no_number_counts_as_none(values: tuple[str, ...], count: int) -> None:
    assert counts(*values) == [count]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_message_passes_unless_its_count_is_above_0_and_has_reached_the_limit(limit: int) -> None:
    given = [-5, -1, 0, 1, 2, 3, 4]
    batch = wire_rows(*({"user_properties": [{"key": HOP_COUNT, "value": str(each)}]} for each in given))
    keep = below_hops(batch, limit)
    assert keep is not None
    assert keep.tolist() == [not (each > 0 and each >= limit) for each in given]


def test_where_all_may_pass_nobody_is_looked_at_twice() -> None:
    assert below_hops(wire_rows({}, {}), 1) is None
    assert below_hops(wire_rows({"user_properties": [{"key": HOP_COUNT, "value": "1"}]}), 2) is None
