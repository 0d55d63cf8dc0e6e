"""Outages that other bridges are known to fail at, in small: each ends with every promise kept and without help."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scenarios.line import Line
from support.client import Client, Message
from support.oracle import sums_that_do_not_hold
from support.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

Lines = Callable[..., Line]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    made: list[Line] = []

    def make(**settings: Any) -> Line:
        made.append(Line(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A line for those who leave it as they found it: with a route that excludes, and one that preserves retain."""
    routes = [
        {"filters": ["push/#"], "excludes": ["push/private/#"]},
        {"filters": ["state/#"], "preserveRetain": True},
    ]
    line = Line(tmp_path_factory.mktemp("shared"), localSubscriptions=routes)
    yield line
    line.close()


@pytest.fixture
def line(shared: Line) -> Line:
    shared.come_back()
    shared.node.wait_drained()
    return shared


def publish(line: Line, *messages: Message) -> None:
    with Client(line.node.port) as here:
        here.publish_all(messages)
        here.barrier()


def numbered(topic: str, count: int, qos: int) -> list[Message]:
    return [Message(topic, b"%d" % n, qos) for n in range(count)]


def test_a_line_that_goes_dead_in_the_middle_of_a_drain_costs_nothing(lines: Lines) -> None:
    """No FIN, no RST: twelve messages wait, some are on the wire, and then there is silence."""
    line = lines(keepAlive=2, remote={"window": 4})
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.go_away()
        publish(line, *numbered("push/x", 12, 1))
        hole = line.wire.at(PUBACK, line.wire.hole)
        line.wire.open()
        hole.wait()
        line.wait_disconnected()
        line.come_back()
        line.node.wait_drained()
        there.barrier()
        assert list(dict.fromkeys(numbers(there, "push/x"))) == list(range(12))
        assert line.push["delivered"] == 12


def test_a_backlog_drains_by_itself_without_new_traffic(line: Line) -> None:
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.go_away()
        publish(line, *numbered("push/idle", 100, 1))
        line.come_back()
        there.wait_for(100)
        line.node.wait_drained()
        assert numbers(there, "push/idle") == list(range(100))


def test_sixty_messages_at_qos_2_through_an_outage_with_three_cuts_in_its_drain_come_exactly_once(line: Line) -> None:
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.go_away()
        publish(line, *numbered("push/sixty", 60, 2))
        cut = line.wire.at(PUBLISH, line.wire.cut, "out")
        line.wire.open()
        cut.wait()
        for kind in (PUBREC, PUBCOMP):
            cut = line.wire.at(kind, line.wire.cut)
            cut.wait()
        line.come_back()
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, "push/sixty") == list(range(60))
        assert line.bridge["possiblyDoubled"] == 0


def test_with_a_window_of_one_a_swallowed_acknowledgement_does_not_stop_the_bridge(lines: Lines) -> None:
    line = lines(remote={"window": 1}, watchdog=2)
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        swallowed = line.wire.swallow(PUBACK)
        publish(line, *numbered("push/x", 20, 1))
        swallowed.wait()
        line.node.wait_drained()
        there.barrier()
        assert list(dict.fromkeys(numbers(there, "push/x"))) == list(range(20))
        assert line.bridge["watchdogResets"] == 1


def test_a_backlog_larger_than_the_remotes_receive_maximum_drains_on_one_connection(lines: Lines) -> None:
    line = lines(remote={"window": 10}, wire_open=False)
    publish(line, *numbered("push/x", 50, 1))
    with Client(line.remote.port) as there:
        there.subscribe("push/#", 0)  # the subscriber's own window is not what is tested
        line.come_back()
        there.wait_for(50)
        line.node.wait_drained()
        assert numbers(there, "push/x") == list(range(50))
        assert line.bridge["connects"] == 1


def test_a_retained_message_that_is_deleted_during_an_outage_is_deleted_at_the_remote_too(line: Line) -> None:
    def retained() -> list[bytes]:
        with Client(line.remote.port) as there:
            there.subscribe("state/#")
            return [message.payload for message in there.barrier()]

    publish(line, Message("state/door", b"open", 1, retain=True))
    line.node.wait_drained()
    assert retained() == [b"open"]
    line.go_away()
    publish(line, Message("state/door", b"", 1, retain=True))
    line.come_back()
    line.node.wait_drained()
    assert retained() == []


def test_what_is_excluded_takes_no_place_in_the_queue_while_the_remote_is_away(line: Line) -> None:
    line.go_away()
    before = line.push
    publish(line, *numbered("push/private/x", 50, 1), *numbered("push/public", 5, 1))
    until(lambda: line.push["depth"] == 5, "the others wait", detail=lambda: line.push)
    assert line.push["droppedBefore"]["excluded"] - before["droppedBefore"].get("excluded", 0) == 50
    assert line.push["entered"] - before["entered"] == 5


def test_the_time_that_a_message_waits_is_taken_off_its_expiry_and_what_is_over_is_dropped_and_counted(line: Line) -> None:
    with Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.go_away()
        before = line.push["dropped"].get("expired", 0)
        lives = {1: 1, 2: 100, 3: 1, 4: 100}
        began = time.monotonic()
        publish(
            line,
            *(Message("push/mortal", b"%d" % n, 1, properties={"MessageExpiryInterval": life}) for n, life in lives.items()),
            Message("push/mortal", b"5", 1),
        )
        until(lambda: time.monotonic() - began > 2.5, "the outage lasts")
        line.come_back()
        line.node.wait_drained()
        came = {int(m.payload): m.properties.get("MessageExpiryInterval") for m in there.barrier()}
        assert list(came) == [2, 4, 5]
        assert came[5] is None
        assert all(50 < came[n] <= 98 for n in (2, 4))
        assert line.push["dropped"]["expired"] - before == 2
        assert sums_that_do_not_hold(line.node.status()) == []


@pytest.mark.parametrize("qos", [0, 1])
def test_the_limit_of_a_queue_is_that_of_its_rule_however_many_filters_it_has(lines: Lines, qos: int) -> None:
    rule = {"filters": ["a/#", "b/#", "c/#"], "queueLimit": 30}
    line = lines(wire_open=False, localSubscriptions=[rule, {"filters": ["other/#"]}])
    messages = [Message(f"{'abc'[n % 3]}/x", b"%d" % n, qos) for n in range(90)]
    publish(line, *messages, *numbered("other/x", 50, qos))
    with Client(line.remote.port) as there:
        there.subscribe("#")
        line.come_back()
        line.node.wait_drained()
        came = there.barrier()
        assert [message.payload for message in came if message.topic[0] in "abc"] == [b"%d" % n for n in range(30)]
        assert numbers(there, "other/x") == list(range(50))
    assert line.push["dropped"] == {"queue-full": 60}
    assert sums_that_do_not_hold(line.node.status()) == []


def test_a_remote_that_forgot_the_session_is_subscribed_to_again(line: Line) -> None:
    with Client(line.node.port) as here:
        here.subscribe("pull/#")
        line.wire.close()
        line.remote.kill()
        line.remote.start()
        line.come_back()
        with Client(line.remote.port) as there:
            there.publish_all(numbered("pull/x", 20, 2))
        here.wait_for(20)
        assert numbers(here, "pull/x") == list(range(20))


def test_a_restart_with_another_keep_alive_or_one_changed_rule_keeps_the_queues_of_the_others(lines: Lines) -> None:
    line = lines(mode="file-native", localSubscriptions=[{"filters": ["one/#"]}, {"filters": ["two/#"]}])
    line.go_away()
    publish(line, *numbered("one/x", 10, 1), *numbered("two/x", 10, 1))
    line.node.stop()
    document = yaml.safe_load(line.node.file.read_text())
    bridge = document["bridges"][0]
    bridge["keepAlive"] = 20
    bridge["localSubscriptions"] = [{"filters": ["one/#"], "maxQoS": 1}, {"filters": ["three/#"]}]
    line.node.file.write_text(yaml.safe_dump(document))
    line.node.launch()
    with Client(line.remote.port) as there:
        there.subscribe("#")
        line.come_back()
        there.wait_for(10)
        assert numbers(there, "one/x") == list(range(10))
