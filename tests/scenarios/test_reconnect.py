"""The way to the remote breaks: what was promised arrives all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.line import Line
from support.client import Client, Message
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

CUTS = 3
VERSIONS: tuple[Any, ...] = (5, "3.1.1")


@pytest.fixture(scope="module", params=VERSIONS, ids=str)
def line(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Line]:
    """Every test leaves it connected, and nothing on the way."""
    line = Line(tmp_path_factory.mktemp("line"), request.param)
    yield line
    line.close()


def test_a_wire_that_is_cut_in_mid_flow_costs_nothing_and_doubles_nothing_at_qos_2(line: Line) -> None:
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        here.subscribe("pull/#")
        there.subscribe("push/#")
        streams = [
            (Stream(source, f"{way}/{qos}", qos), target)
            for way, source, target in (("push", here, there), ("pull", there, here))
            for qos in (1, 2)
        ]
        for _ in range(CUTS):
            marks = [stream.sent for stream, _ in streams]
            until(
                lambda marks=marks: all(
                    target.came[stream.topic] > mark
                    for (stream, target), mark in zip(streams, marks, strict=True)
                ),
                "messages flow",
                detail=lambda: (line.bridge, line.node.log()),
            )
            line.wire.cut()
        expected = [list(range(stream.stop())) for stream, _ in streams]
        line.node.wait_connected()
        for (stream, target), sent in zip(streams, expected, strict=True):
            target.wait_until(
                lambda _, t=target, s=stream, n=sent: t.came[s.topic] >= len(n) and set(numbers(t, s.topic)) == set(n),
                "all arrive",
            )
        line.node.wait_drained()
        here.barrier()
        there.barrier()
        for (stream, target), sent in zip(streams, expected, strict=True):
            came = numbers(target, stream.topic)
            assert list(dict.fromkeys(came)) == sent  # in order, the first time each comes
            if stream.topic.endswith("2"):
                assert came == sent


def test_what_is_published_while_the_remote_is_away_arrives_when_it_is_back_qos_0_too(line: Line) -> None:
    doubled = line.bridge["possiblyDoubled"]
    with Client(line.node.port) as here:
        with Client(line.remote.port) as there:
            there.subscribe("push/#")
            here.publish_all([Message(f"push/{qos}", b"%d" % n, qos) for n in range(50) for qos in (0, 1, 2)])
            there.wait_for(150)
            line.node.wait_drained()
        line.wire.close()
        line.remote.kill()
        line.wait_disconnected()
        here.publish_all([Message(f"push/{qos}", b"%d" % n, qos) for n in range(50, 500) for qos in (0, 1, 2)])
        assert sum(route["depth"] for route in line.node.routes("line", "push")) == 1350
        line.remote.start()
        with Client(line.remote.port) as there:
            there.subscribe("push/#")
            line.wire.open()
            line.node.wait_connected()
            here.publish_all([Message(f"push/{qos}", b"%d" % n, qos) for n in range(500, 550) for qos in (0, 1, 2)])
            there.wait_for(1500)
            line.node.wait_drained()
            there.barrier()
            for qos in (0, 1, 2):
                assert numbers(there, f"push/{qos}") == list(range(50, 550))
        assert line.bridge["possiblyDoubled"] == doubled


def test_a_remote_that_is_killed_in_mid_flow_and_forgets_its_session_is_sent_everything_unacknowledged_again(
    line: Line,
) -> None:
    doubled_before = line.bridge["possiblyDoubled"]
    with Client(line.node.port) as here:
        with Client(line.remote.port) as before:
            before.subscribe("push/#")
            streams = [Stream(here, f"push/{qos}", qos) for qos in (1, 2)]
            until(lambda: all(before.came[s.topic] > 100 for s in streams), "messages flow")
            line.wire.close()
            before.barrier()  # what the remote acknowledged, it has handed on: a kill loses nothing of it
        line.remote.kill()
        line.remote.start()
        with Client(line.remote.port) as after:
            after.subscribe("push/#")
            line.wire.open()
            line.node.wait_connected()
            expected = {stream.topic: list(range(stream.stop())) for stream in streams}
            line.node.wait_drained()
            after.barrier()
            came = {topic: numbers(before, topic) + numbers(after, topic) for topic in expected}
        assert {topic: list(dict.fromkeys(got)) for topic, got in came.items()} == expected
        doubled = sum(len(got) - len(set(got)) for got in came.values())
        assert doubled <= line.bridge["possiblyDoubled"] - doubled_before


def test_pulled_messages_wait_at_the_remote_while_the_wire_is_cut(line: Line) -> None:
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        here.subscribe("pull/#")
        line.wire.close()
        line.wait_disconnected()
        there.publish_all([Message(f"pull/{qos}", b"%d" % n, qos) for n in range(200) for qos in (1, 2)])
        line.wire.open()
        line.node.wait_connected()
        here.wait_for(400)
        line.node.wait_drained()
        here.barrier()
        assert numbers(here, "pull/1") == numbers(here, "pull/2") == list(range(200))
