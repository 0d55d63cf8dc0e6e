"""The demo counts what arrives: each number once, what is missing, what came twice, in little memory however long it runs."""

from __future__ import annotations

import itertools
import json

from bridgehead.demo.factory import Arrivals, commands, readings
from making.rows import outbox_rows


def arrive(arrivals: Arrivals, *numbers: int) -> None:
    arrivals.batch(outbox_rows(*[{"payload": json.dumps({"n": number, "t": 0}).encode()} for number in numbers]))


def test_numbers_are_counted_once_and_repetitions_apart() -> None:
    arrivals = Arrivals()
    arrive(arrivals, 1, 2, 3, 2)
    arrive(arrivals, 3, 4)
    assert (arrivals.count, arrivals.doubled, arrivals.missing) == (4, 2, 0)


def test_a_number_below_the_highest_that_has_not_come_is_missing_until_it_comes() -> None:
    arrivals = Arrivals()
    arrive(arrivals, 1, 4, 5)
    assert arrivals.missing == 2
    arrive(arrivals, 3, 2)
    assert (arrivals.missing, arrivals.count) == (0, 5)


def test_what_has_come_in_a_row_is_remembered_as_one_number() -> None:
    arrivals = Arrivals()
    for start in range(1, 5000, 100):
        arrive(arrivals, *reversed(range(start, start + 100)))
    assert arrivals._ahead == set()
    arrive(arrivals, 17)
    assert arrivals.doubled == 1


def test_latency_is_told_when_something_came() -> None:
    arrivals = Arrivals()
    assert arrivals.latency() is None
    arrive(arrivals, 1)
    assert arrivals.latency() is not None


def test_the_factory_numbers_its_messages_from_1() -> None:
    for source, prefix in ((readings(), "factory/"), (commands(), "commands/")):
        messages = list(itertools.islice(source, 50))
        assert [json.loads(payload)["n"] for _, payload in messages] == list(range(1, 51))
        assert all(topic.startswith(prefix) for topic, _ in messages)
