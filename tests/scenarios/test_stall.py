"""Nothing makes a bridge stand still: cuts at the worst moments, silence, swallowed answers. Each recovers by itself."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.line import Line
from support.client import Client, Message
from support.oracle import sums_that_do_not_hold
from support.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from support.stream import Stream, numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

Lines = Callable[..., Line]
QUICK_CYCLES = 20


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    made: list[Line] = []

    def make(*arguments: Any, **settings: Any) -> Line:
        made.append(Line(tmp_path, *arguments, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    """Lines that something goes wrong on again and again: one of each kind, and every test leaves it connected."""
    made: dict[str, Line] = {}

    def make(**settings: Any) -> Line:
        name = str(settings)
        if name not in made:
            made[name] = Line(tmp_path_factory.mktemp("mended"), **settings)
        return made[name]

    yield make
    for each in made.values():
        each.close()


def test_twenty_quick_cuts_under_traffic_lose_nothing_and_forwarding_goes_on(lines: Lines) -> None:
    line, chance = lines(), random.Random(20)
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        stream = Stream(here, "push/1", 1)
        for _ in range(QUICK_CYCLES):
            line.wire.close()
            threading.Event().wait(chance.uniform(0.05, 0.5))  # the length of the cut
            line.wire.open()
            threading.Event().wait(chance.uniform(0.05, 0.3))  # until the next
        mark = stream.sent
        until(lambda: len(set(numbers(there, "push/1"))) > mark, "forwarding goes on", detail=lambda: line.bridge)
        expected = list(range(stream.stop()))
        line.node.wait_drained()
        there.barrier()
        assert list(dict.fromkeys(numbers(there, "push/1"))) == expected
        assert line.bridge["inFlight"] == 0
        assert sums_that_do_not_hold(line.node.status()) == []


def test_a_cut_exactly_between_publish_and_puback_delivers_at_least_once_and_the_queue_empties(mended: Lines) -> None:
    line = mended()
    connects, delivered = line.bridge["connects"], line.push["delivered"]
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        moment = line.wire.at(PUBACK, line.wire.cut)
        here.publish_all([Message("push/1", b"%d" % n, 1) for n in range(10)])
        moment.wait()
        line.wait_connects(connects + 1)
        line.node.wait_drained()
        there.barrier()
        assert list(dict.fromkeys(numbers(there, "push/1"))) == list(range(10))
        assert line.push["delivered"] == delivered + 10


@pytest.mark.parametrize(
    ("kind", "way"),
    [(PUBLISH, "out"), (PUBREC, "back"), (PUBREL, "out"), (PUBCOMP, "back")],
    ids=["PUBLISH", "PUBREC", "PUBREL", "PUBCOMP"],
)
@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_qos_2_across_a_reconnect_with_the_session_present_is_exactly_once_wherever_the_cut_falls(
    mended: Lines, kind: int, way: str, fault: str
) -> None:
    line, topic = mended(), f"push/{fault}/{kind}"
    connects = line.bridge["connects"]
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        moment = line.wire.at(kind, line.wire.cut if fault == "cut" else line.wire.reset, way)
        here.publish_all([Message(topic, b"%d" % n, 2) for n in range(10)])
        moment.wait()
        line.wait_connects(connects + 1)
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, topic) == list(range(10))
        assert line.bridge["possiblyDoubled"] == 0


def test_a_half_open_line_is_found_by_keep_alive_and_recovers_by_itself(lines: Lines) -> None:
    line = lines(keepAlive=2, watchdog=60)
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.wire.hole()
        here.publish_all([Message("push/2", b"%d" % n, 2) for n in range(50)])
        line.wait_disconnected()
        assert "silent" in line.bridge["lastError"]
        assert line.bridge["watchdogResets"] == 0
        line.wire.heal()
        line.wait_connects(2)
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, "push/2") == list(range(50))


@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC), (2, PUBCOMP)], ids=["PUBACK", "PUBREC", "PUBCOMP"])
def test_a_remote_that_answers_pings_but_acknowledges_nothing_is_left_by_the_watchdog(
    mended: Lines, qos: int, kind: int
) -> None:
    line, topic = mended(keepAlive=1, watchdog=2.5), f"push/{qos}/{kind}"
    resets = line.bridge["watchdogResets"]
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.wire.swallow(kind, None)
        here.publish_all([Message(topic, b"%d" % n, qos) for n in range(20)])
        until(lambda: line.bridge["watchdogResets"] == resets + 1, "the watchdog bites", detail=lambda: line.bridge)
        assert "20 messages are in flight and none was acknowledged" in line.bridge["watchdogReason"]
        line.wire.heal()
        line.node.wait_connected()
        line.node.wait_drained()
        there.barrier()
        came = numbers(there, topic)
        assert (came if qos == 2 else list(dict.fromkeys(came))) == list(range(20))


@pytest.mark.parametrize("qos", [0, 1])
def test_what_is_published_while_the_remote_refuses_from_the_start_is_all_sent_in_order(lines: Lines, qos: int) -> None:
    line = lines(wire_open=False)
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        here.publish_all([Message("push/x", b"%d" % n, qos) for n in range(5000)])
        until(lambda: line.push["depth"] == 5000, "all wait", detail=lambda: line.push)
        until(lambda: (line.bridge["nextAttemptIn"] or 0) > 1.5, "it has been refused more than once")
        assert "cannot reach" in line.bridge["lastError"]
        line.wire.open()
        line.node.wait_connected()
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, "push/x") == list(range(5000))


def test_beyond_the_limit_of_the_queue_the_first_are_kept_and_the_others_counted_qos_0_too(lines: Lines) -> None:
    line = lines(wire_open=False, push={"queueLimit": 100})
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        here.publish_all([Message("push/x", b"%d" % n, n % 2) for n in range(500)])
        until(lambda: line.push["received"] == 500, "all have come", detail=lambda: line.push)
        until(lambda: sum(line.push["dropped"].values()) == 400, "what does not fit is counted", detail=lambda: line.push)
        line.wire.open()
        line.node.wait_connected()
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, "push/x") == list(range(100))
        assert sums_that_do_not_hold(line.node.status()) == []


def test_of_qos_0_no_more_is_lost_than_was_really_on_the_wire(lines: Lines) -> None:
    line = lines()
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        line.wire.hole()
        here.publish_all([Message("push/0", b"%d" % n, 0) for n in range(200)])
        until(lambda: line.push["delivered"] == 200, "the kernel has taken them")
        line.wire.close()
        line.wait_disconnected()
        here.publish_all([Message("push/0", b"%d" % n, 0) for n in range(200, 600)])
        until(lambda: line.push["depth"] == 400, "the others wait")
        line.wire.heal()
        line.wire.open()
        line.wait_connects(2)
        line.node.wait_drained()
        there.barrier()
        assert numbers(there, "push/0") == list(range(200, 600))


def test_if_the_remote_forgets_the_session_qos_2_is_sent_again_as_new_and_counted(lines: Lines) -> None:
    line = lines()
    with Client(line.node.port) as here:
        moment = line.wire.at(PUBREC, line.wire.cut)
        here.publish_all([Message("push/2", b"%d" % n, 2) for n in range(10)])
        moment.wait()
        line.wire.close()
        line.remote.kill()
        line.remote.start()
        with Client(line.remote.port) as there:
            there.subscribe("push/#")
            line.wire.open()
            line.wait_connects(2)
            line.node.wait_drained()
            there.barrier()
            came = numbers(there, "push/2")
        assert came == sorted(set(came))
        assert came == list(range(10))
        assert line.bridge["possiblyDoubled"] > 0


def test_a_message_over_the_remotes_packet_size_is_a_dead_letter_and_the_others_flow(lines: Lines) -> None:
    line = lines(remote={"max_packet_size": 2000})
    with Client(line.node.port) as here, Client(line.remote.port) as there:
        there.subscribe("push/#")
        sizes = {3: 5000, 7: 5000}
        here.publish_all([Message(f"push/{n}", b"%d" % n + b" " * sizes.get(n, 0), 1) for n in range(10)])
        line.node.wait_drained()
        there.barrier()
        assert [message.topic for message in there.messages] == [f"push/{n}" for n in range(10) if n not in sizes]
        assert line.push["deadLettered"] == {"too-large": 2}
        assert line.bridge["connects"] == 1
