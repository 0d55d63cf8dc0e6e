"""A queue with a limit through an outage: exactly what its strategy promises is delivered, and publishers know what is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import paho.mqtt.client as paho
import pytest

from scenarios.line import Line
from support.client import Client, Message
from support.stream import numbers
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.mosquitto

LIMIT = 100
MANY = 1000
QUOTA_EXCEEDED = 151
RELEASED_FOR_NOTHING = 146
"""What paho says of a refused QoS 2 message: it releases it all the same, and shows the answer to that."""
MAX_AGE = 6.0
SOON = 1.0
"""Seconds: what is published so soon before the bridge connects is far from too old when it is sent."""
STRATEGIES = ("discard", "discard-oldest", "refuse")


class Queue:
    """The push route of a strategy; what it counts begins with this test."""

    def __init__(self, line: Line, strategy: str) -> None:
        self.line = line
        self.topic = f"push/{strategy}"
        self._place = STRATEGIES.index(strategy)
        self._before = self._figures()

    def _figures(self) -> dict[str, Any]:
        return self.line.node.routes("line", "push")[self._place]

    def __getitem__(self, figure: str) -> Any:
        now, before = self._figures()[figure], self._before[figure]
        if isinstance(now, dict):
            return {reason: count for reason in now if (count := now[reason] - before.get(reason, 0))}
        return now - before

    def settled(self, came: int) -> None:
        """Everything that was published has gone through the pipeline."""
        until(lambda: self["received"] == came, "all have come", detail=self._figures)
        until(lambda: self["waiting"] == 0, "the pipeline is through", detail=self._figures)

    def come_back_and_drain(self, there: Client) -> list[int]:
        return come_back_and_drain(self.line, there, self.topic)


@pytest.fixture(scope="module", params=[pytest.param("spark", marks=pytest.mark.spark), "inline"])
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """One line with a route for each strategy."""
    routes = [
        {"filters": [f"push/{name}/#"], "queueLimit": LIMIT, "strategy": name, "engine": request.param} for name in STRATEGIES
    ]
    line = Line(tmp_path_factory.mktemp("line"), localSubscriptions=routes)
    yield line
    line.close()


@contextmanager
def line_with(directory: Path, mode: str = "in-memory", **push: Any) -> Iterator[Line]:
    line = Line(directory, push=push, mode=mode)
    try:
        yield line
    finally:
        line.close()


def numbered(first: int, count: int, qos: int, topic: str) -> list[Message]:
    return [Message(topic, b"%d" % number, qos) for number in range(first, first + count)]


def come_back_and_drain(line: Line, there: Client, topic: str) -> list[int]:
    line.come_back()
    line.node.wait_drained()
    there.barrier()
    return numbers(there, topic)


@pytest.mark.parametrize("strategy", ["discard", "discard-oldest"])
def test_after_an_outage_exactly_the_first_or_the_newest_are_delivered(line: Line, strategy: str) -> None:
    queue = Queue(line, strategy)
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        came = 0
        for qos in (0, 1, 2):
            line.go_away()
            there.messages.clear()
            with Client(line.node.port) as here:
                # In bursts of several sizes, and one of them larger than the queue.
                for burst in (1, 7, LIMIT // 2, 3 * LIMIT, 1):
                    here.publish_all(numbered(came, burst, qos, queue.topic))
                    came += burst
            queue.settled(came)
            sent = 1 + 7 + LIMIT // 2 + 3 * LIMIT + 1
            first = came - sent
            expected = range(first, first + LIMIT) if strategy == "discard" else range(came - LIMIT, came)
            assert queue.come_back_and_drain(there) == list(expected)
        assert sum(queue["dropped"].values()) == came - 3 * LIMIT
        assert queue["entered"] == queue["delivered"] + queue["dropped"]["queue-full"]


def test_what_discard_oldest_has_dropped_does_not_come_back_with_a_new_life(tmp_path: Path) -> None:
    with (
        line_with(tmp_path, mode="file-native", queueLimit=LIMIT, strategy="discard-oldest") as line,
        Client(line.remote.port) as there,
    ):
        there.subscribe("push/#")
        line.go_away()
        with Client(line.node.port) as here:
            here.publish_all(numbered(0, MANY, 1, "push/a"))
        until(lambda: line.push["received"] == MANY and line.push["waiting"] == 0, "all have come", detail=lambda: line.push)
        line.kill()
        assert line.push["depth"] == LIMIT
        assert come_back_and_drain(line, there, "push/a") == list(range(MANY - LIMIT, MANY))


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_mqtt_5_is_told_what_has_no_room_and_brings_it_again(line: Line, qos: int) -> None:
    queue = Queue(line, "refuse")
    with (
        Client(line.remote.port) as there,
        Client(line.node.port) as here,
        Client(line.node.port) as listener,
    ):
        there.subscribe("push/#")
        listener.subscribe("push/#")
        line.go_away()
        answers: dict[int, int] = {}
        here.paho.on_publish = lambda client, userdata, mid, reason, properties: answers.__setitem__(mid, reason.value)
        asked = [here.publish(message) for message in numbered(0, MANY, qos, queue.topic)]
        until(lambda: len(answers) == MANY, "every message has its answer", detail=lambda: len(answers))
        taken = [at for at, info in enumerate(asked) if answers[info.mid] < 128]
        assert taken == list(range(LIMIT))
        assert {answers[info.mid] for info in asked[LIMIT:]} == {QUOTA_EXCEEDED if qos == 1 else RELEASED_FOR_NOTHING}
        here.publish_all([Message("elsewhere", b"", qos)])  # other topics flow, on the same connection too
        listener.barrier()
        assert numbers(listener, queue.topic) == taken, "what is refused reaches nobody"
        assert queue["refused"] == MANY - LIMIT
        assert queue.come_back_and_drain(there) == taken
        here.publish_all(numbered(MANY, LIMIT, qos, queue.topic))
        until(lambda: queue["delivered"] == 2 * LIMIT, "there is room again", detail=lambda: line.node.routes("line", "push"))


def test_qos_0_without_room_is_dropped_and_counted(line: Line) -> None:
    queue = Queue(line, "refuse")
    with Client(line.remote.port) as there, Client(line.node.port) as here:
        there.subscribe("push/#")
        line.go_away()
        here.publish_all(numbered(0, MANY, 0, queue.topic))
        queue.settled(MANY)
        assert queue["droppedBefore"] == {"queue-full": MANY - LIMIT}
        assert queue.come_back_and_drain(there) == list(range(LIMIT))


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_3_1_1_waits_and_then_all_of_it_arrives(line: Line, qos: int) -> None:
    queue = Queue(line, "refuse")
    with (
        Client(line.remote.port) as there,
        Client(line.node.port, "3.1.1", keep_alive=60) as here,
        Client(line.node.port, "3.1.1") as other,
    ):
        there.subscribe("push/#")
        line.go_away()
        asked: list[paho.MQTTMessageInfo] = [here.publish(message) for message in numbered(0, MANY, qos, queue.topic)]
        until(lambda: queue["depth"] == LIMIT, "the queue is full", detail=lambda: line.node.routes("line", "push"))
        until(lambda: line.node.status()["broker"]["heldBack"] == 1, "the publisher is held back")
        other.publish_all(numbered(0, 10, qos, "elsewhere"))
        assert not asked[-1].is_published()
        line.come_back()
        for info in asked:
            info.wait_for_publish(PATIENCE)
        assert not here.disconnected.is_set()
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, queue.topic) == list(range(MANY))
        assert (queue["dropped"], queue["droppedBefore"], queue["refused"]) == ({}, {}, 0)


def test_what_is_too_old_when_the_remote_comes_back_is_not_sent(tmp_path: Path) -> None:
    with (
        line_with(tmp_path, maxAge=MAX_AGE) as line,
        Client(line.remote.port) as there,
        Client(line.node.port) as here,
    ):
        there.subscribe("push/#")
        line.go_away()
        here.publish_all(numbered(0, LIMIT, 1, "push/a"))
        last = monotonic()
        until(lambda: monotonic() > last + MAX_AGE, "they grow too old")
        until(lambda: 0 < (line.bridge["nextAttemptIn"] or 0) < SOON, "the next attempt is near", detail=lambda: line.bridge)
        here.publish_all(numbered(LIMIT, LIMIT, 1, "push/a"))
        assert come_back_and_drain(line, there, "push/a") == list(range(LIMIT, 2 * LIMIT))
        assert line.push["dropped"] == {"too-old": LIMIT}
