"""A queue that is full while the remote is away: what its strategy keeps is delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.line import Line
from support.client import Client, Message
from support.oracle import sums_that_do_not_hold
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

LIMIT = 10
Lines = Callable[..., Line]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    made: list[Line] = []

    def make(strategy: str, **settings: Any) -> Line:
        made.append(Line(tmp_path, push={"queueLimit": LIMIT, "strategy": strategy}, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def numbered(count: int, qos: int, first: int = 0) -> list[Message]:
    return [Message("push/x", b"%d" % n, qos) for n in range(first, first + count)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_discard_oldest_delivers_what_was_on_the_wire_and_the_newest(lines: Lines, qos: int) -> None:
    line = lines("discard-oldest")
    on_the_wire = 3 if qos else 0
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.wire.hole()
        here.publish_all(numbered(on_the_wire, qos))
        until(lambda: line.push["inFlight"] == on_the_wire, "some are on the wire")
        line.go_away()
        here.publish_all(numbered(30, qos, on_the_wire))
        until(lambda: line.push["entered"] == 30 + on_the_wire, "all have come", detail=lambda: line.push)
        assert line.push["depth"] == LIMIT
        line.come_back()
        line.node.wait_drained()
        there.barrier()
        newest = range(on_the_wire + 30)[-(LIMIT - on_the_wire) :]
        assert numbers(there, "push/x") == [*range(on_the_wire), *newest]
        assert line.push["dropped"] == {"queue-full": 30 + on_the_wire - LIMIT}
        assert sums_that_do_not_hold(line.node.status()) == []
