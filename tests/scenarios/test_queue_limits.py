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
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.mosquitto

ENGINES = [pytest.param("spark", marks=pytest.mark.spark), "inline"]
LIMIT = 100
MANY = 1000
QUOTA_EXCEEDED = 151
RELEASED_FOR_NOTHING = 146
"""What paho says of a refused QoS 2 message: it releases it all the same, and shows the answer to that."""
MAX_AGE = 20.0
"""Seconds: far more than it takes to publish and to connect again."""


@contextmanager
def line_with(directory: Path, engine: str = "inline", mode: str = "in-memory", **push: Any) -> Iterator[Line]:
    line = Line(directory, push={"engine": engine, **push}, mode=mode)
    try:
        yield line
    finally:
        line.close()


def numbered(first: int, count: int, qos: int, topic: str = "push/a") -> list[Message]:
    return [Message(topic, b"%d" % number, qos) for number in range(first, first + count)]


def arrived(there: Client, topic: str = "push/a") -> list[int]:
    return [int(payload) for payload in there.topics().get(topic, [])]


def come_back_and_drain(line: Line, there: Client) -> list[int]:
    line.come_back()
    line.node.wait_drained()
    there.barrier()
    return arrived(there)


def settled(line: Line, came: int) -> None:
    """Everything that was published has gone through the pipeline."""
    until(lambda: line.push["received"] == came, "all have come", detail=lambda: line.push)
    until(lambda: line.push["waiting"] == 0, "the pipeline is through", detail=lambda: line.push)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("strategy", ["discard", "discard-oldest"])
def test_after_an_outage_exactly_the_first_or_the_newest_are_delivered(tmp_path: Path, engine: str, strategy: str) -> None:
    with line_with(tmp_path, engine, queueLimit=LIMIT, strategy=strategy) as line, Client(line.remote.port) as there:
        there.subscribe("push/#")
        came = 0
        for qos in (0, 1, 2):
            line.go_away()
            there.messages.clear()
            with Client(line.node.port) as here:
                # In bursts of several sizes, and one of them larger than the queue.
                for burst in (1, 7, LIMIT // 2, 3 * LIMIT, 1):
                    here.publish_all(numbered(came, burst, qos))
                    came += burst
            settled(line, came)
            sent = 1 + 7 + LIMIT // 2 + 3 * LIMIT + 1
            first = came - sent
            expected = range(first, first + LIMIT) if strategy == "discard" else range(came - LIMIT, came)
            assert come_back_and_drain(line, there) == list(expected)
        assert sum(line.push["dropped"].values()) == came - 3 * LIMIT
        assert line.push["entered"] == line.push["delivered"] + line.push["dropped"]["queue-full"]


def test_what_discard_oldest_has_dropped_does_not_come_back_with_a_new_life(tmp_path: Path) -> None:
    with (
        line_with(tmp_path, mode="file-native", queueLimit=LIMIT, strategy="discard-oldest") as line,
        Client(line.remote.port) as there,
    ):
        there.subscribe("push/#")
        line.go_away()
        with Client(line.node.port) as here:
            here.publish_all(numbered(0, MANY, 1))
        settled(line, MANY)
        line.kill()
        assert line.push["depth"] == LIMIT
        assert come_back_and_drain(line, there) == list(range(MANY - LIMIT, MANY))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_mqtt_5_is_told_what_has_no_room_and_brings_it_again(tmp_path: Path, engine: str, qos: int) -> None:
    with (
        line_with(tmp_path, engine, queueLimit=LIMIT, strategy="refuse") as line,
        Client(line.remote.port) as there,
        Client(line.node.port) as here,
        Client(line.node.port) as listener,
    ):
        there.subscribe("push/#")
        listener.subscribe("push/#")
        line.go_away()
        answers: dict[int, int] = {}
        here.paho.on_publish = lambda client, userdata, mid, reason, properties: answers.__setitem__(mid, reason.value)
        asked = [here.publish(message) for message in numbered(0, MANY, qos)]
        until(lambda: len(answers) == MANY, "every message has its answer", detail=lambda: len(answers))
        taken = [at for at, info in enumerate(asked) if answers[info.mid] < 128]
        assert taken == list(range(LIMIT))
        assert {answers[info.mid] for info in asked[LIMIT:]} == {QUOTA_EXCEEDED if qos == 1 else RELEASED_FOR_NOTHING}
        here.publish_all([Message("elsewhere", b"", qos)])  # other topics flow, on the same connection too
        listener.barrier()
        assert arrived(listener) == taken, "what is refused reaches nobody"
        assert line.push["refused"] == MANY - LIMIT
        assert come_back_and_drain(line, there) == taken
        here.publish_all(numbered(MANY, LIMIT, qos))
        until(lambda: line.push["delivered"] == 2 * LIMIT, "there is room again", detail=lambda: line.push)


def test_qos_0_without_room_is_dropped_and_counted(tmp_path: Path) -> None:
    with (
        line_with(tmp_path, queueLimit=LIMIT, strategy="refuse") as line,
        Client(line.remote.port) as there,
        Client(line.node.port) as here,
    ):
        there.subscribe("push/#")
        line.go_away()
        here.publish_all(numbered(0, MANY, 0))
        until(lambda: line.push["received"] == MANY, "all have come", detail=lambda: line.push)
        assert line.push["droppedBefore"] == {"queue-full": MANY - LIMIT}
        assert come_back_and_drain(line, there) == list(range(LIMIT))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_3_1_1_waits_and_then_all_of_it_arrives(tmp_path: Path, engine: str, qos: int) -> None:
    with (
        line_with(tmp_path, engine, queueLimit=LIMIT, strategy="refuse") as line,
        Client(line.remote.port) as there,
        Client(line.node.port, "3.1.1", keep_alive=60) as here,
        Client(line.node.port, "3.1.1") as other,
    ):
        there.subscribe("push/#")
        line.go_away()
        asked: list[paho.MQTTMessageInfo] = [here.publish(message) for message in numbered(0, MANY, qos)]
        until(lambda: line.push["depth"] == LIMIT, "the queue is full", detail=lambda: line.push)
        until(lambda: line.node.status()["broker"]["heldBack"] == 1, "the publisher is held back")
        other.publish_all(numbered(0, 10, qos, topic="elsewhere"))
        assert not asked[-1].is_published()
        line.come_back()
        for info in asked:
            info.wait_for_publish(PATIENCE)
        assert not here.disconnected.is_set()
        line.node.wait_drained()
        there.barrier()
        assert arrived(there) == list(range(MANY))
        assert (line.push["dropped"], line.push["droppedBefore"], line.push["refused"]) == ({}, {}, 0)


def test_what_is_too_old_when_the_remote_comes_back_is_not_sent(tmp_path: Path) -> None:
    with (
        line_with(tmp_path, maxAge=MAX_AGE) as line,
        Client(line.remote.port) as there,
        Client(line.node.port) as here,
    ):
        there.subscribe("push/#")
        line.go_away()
        here.publish_all(numbered(0, LIMIT, 1))
        last = monotonic()
        until(lambda: monotonic() > last + MAX_AGE, "they grow too old")
        here.publish_all(numbered(LIMIT, LIMIT, 1))
        assert come_back_and_drain(line, there) == list(range(LIMIT, 2 * LIMIT))
        assert line.push["dropped"] == {"too-old": LIMIT}
