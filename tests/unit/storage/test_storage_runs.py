"""Runs: which offsets of a log belong to which route."""

from __future__ import annotations

from bridgehead.storage.runs import Runs


def made(*starts: tuple[int, str]) -> Runs:
    runs = Runs()
    for start, route in starts:
        runs.extend(start, route)
    return runs


def test_rows_belong_to_the_route_that_came_last() -> None:
    runs = made((0, "a"), (5, "b"), (7, "a"))
    assert list(runs.between(0, 10)) == [("a", 0, 5), ("b", 5, 7), ("a", 7, 10)]
    assert list(runs.between(6, 8)) == [("b", 6, 7), ("a", 7, 8)]


def test_a_route_that_goes_on_makes_no_new_run() -> None:
    assert list(made((0, "a"), (5, "a"), (9, "a")).between(0, 12)) == [("a", 0, 12)]


def test_nothing_is_known_before_the_first_row() -> None:
    assert list(made((10, "a")).between(0, 5)) == []
    assert list(made((10, "a")).between(0, 12)) == [("a", 10, 12)]
    assert list(Runs().between(0, 5)) == []


def test_what_is_forgotten_leaves_the_rest_as_it_was() -> None:
    runs = made((0, "a"), (5, "b"), (7, "a"))
    runs.forget(6)
    assert list(runs.between(6, 10)) == [("b", 6, 7), ("a", 7, 10)]
    runs.forget(7)
    assert list(runs.between(7, 10)) == [("a", 7, 10)]
