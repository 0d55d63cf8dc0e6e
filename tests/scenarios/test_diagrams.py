"""The pictures of the bridge's promise, each played with its numbers, from the first to the last:

 1. QoS 0 in normal operation           a_qos_0_message_is_done_when_it_is_sent
 2. QoS 1 in normal operation           a_tracked_message_leaves_the_queue_with_its_acknowledgement
 3. QoS 2 in normal operation           the same
 4. QoS 1 and 2 with persist=false      without_persist_a_message_is_lowered_and_nobody_waits_for_its_acknowledgement
 5. in-memory mode                      test_survival.py: everything is lost in a restart
 6. file-native mode                    test_survival.py: QoS 1 and 2 survive a restart, QoS 0 does not
 7. modes compared, 10/10/10/5          of_10_10_10_and_5_messages_a_restart_leaves_0_10_0_and_0
 8. two tiers during a disconnection    while_the_remote_is_away_messages_wait_in_both_tiers
 9. QoS compared during it              the same, for every QoS and persist
10. back-off                            attempts_are_1_2_and_4_seconds_apart_and_a_success_starts_again_from_1
11. the flow on reconnect               on_reconnect_tier_2_goes_first_and_tier_1_follows
12. reconnect with retry                what_was_not_acknowledged_is_sent_again_and_leaves_the_queue_only_then
13. the life of a message               a_missing_acknowledgement_leaves_the_message_pending_until_the_next_connection
14. QoS compared on a bad network       of_what_a_failed_send_took_along_qos_0_is_lost_and_the_others_are_tried_again
15. flapping, M1 to M4                  a_flapping_network_delivers_m1_to_m4_in_order
16. survival of a restart, 15/8/3       of_15_waiting_8_held_and_3_in_flight_a_restart_keeps_what_the_mode_keeps
17. recovery of 10                      ten_restored_messages_are_delivered_as_if_nothing_had_happened
18. restart in summary                  test_survival.py: twelve rows, one of which survives at QoS 1 and 2
19. everything in one picture           test_persist_matrix.py: every branch is a cell of the matrix

Tier 2 is a copy in RAM. The pictures show it lost in a restart, and it is; what stands behind it in tier 1 is not lost with it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scenarios.line import Line
from support.client import Client, Message
from support.packets import PUBACK, PUBCOMP
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto

TIER2 = 8
ANSWERS = {1: PUBACK, 2: PUBCOMP}  # what ends the life of a message
TRACKED = pytest.mark.parametrize("qos", [1, 2])
EVERY_QOS = pytest.mark.parametrize("qos", [0, 1, 2])

_topics = itertools.count()


class Scene:
    """One test on a line that others have used before it: a topic of its own, and figures from here on."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.wire = line.wire
        self.topic = f"push/{next(_topics)}"
        before = line.push
        self._before = {name: before[name] for name in ("entered", "delivered")}

    def publish(self, *payloads: int, qos: int) -> None:
        with Client(self.line.node.port) as here:
            here.publish_all([Message(self.topic, b"%d" % n, qos) for n in payloads])
            here.barrier()  # QoS 0 has no acknowledgement: what was sent before this has been taken

    def shows(self, **figures: int) -> None:
        """The figures of the push route come to these."""
        expected = {name: value + self._before.get(name, 0) for name, value in figures.items()}
        until(
            lambda: expected.items() <= self.line.push.items(),
            f"the route shows {expected}",
            detail=lambda: (self.line.push, self.line.bridge),
        )

    def arrives(self, there: Client, *expected: int) -> None:
        """In the end exactly these have arrived, in this order."""
        self.line.node.wait_drained()
        # QoS 0 is done when the kernel has it: the wire, or the remote, may still have it before it.
        until(lambda: len(numbers(there, self.topic)) >= len(expected), "they have arrived", detail=lambda: there.topics())
        there.barrier()
        assert numbers(there, self.topic) == list(expected)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Scene]]:
    """Scenes on lines with these settings; a line is made once and left in good order by every scene."""
    made: dict[str, Line] = {}

    def make(**settings: Any) -> Scene:
        name = str(sorted(settings.items()))
        if name not in made:
            made[name] = Line(tmp_path_factory.mktemp("line"), tier2Limit=TIER2, **settings)
        line = made[name]
        line.come_back()
        line.node.wait_drained()
        return Scene(line)

    yield make
    for line in made.values():
        line.close()


Scenes = Callable[..., Scene]


def test_a_qos_0_message_is_done_when_it_is_sent(scenes: Scenes) -> None:
    scene = scenes()
    scene.wire.hole()  # nobody there has seen it, and nobody here waits for that
    scene.publish(1, qos=0)
    scene.shows(entered=1, delivered=1, depth=0, inFlight=0)


@TRACKED
def test_a_tracked_message_leaves_the_queue_with_its_acknowledgement(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.wire.hole()
        scene.publish(1, qos=qos)
        scene.shows(entered=1, delivered=0, depth=1, inFlight=1)
        scene.wire.heal()
        scene.shows(entered=1, delivered=1, depth=0, inFlight=0)
        assert [(message.payload, message.qos) for message in there.barrier()] == [(b"1", qos)]


@TRACKED
def test_without_persist_a_message_is_lowered_and_nobody_waits_for_its_acknowledgement(scenes: Scenes, qos: int) -> None:
    scene = scenes(persist=False)
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.wire.hole()
        scene.publish(1, qos=qos)
        scene.shows(entered=1, delivered=1, depth=0, inFlight=0)
        scene.wire.heal()
        assert [(message.payload, message.qos) for message in there.wait_for(1)] == [(b"1", 0)]


def test_of_10_10_10_and_5_messages_a_restart_leaves_0_10_0_and_0(scenes: Scenes) -> None:
    memory = scenes().line
    disk = scenes(mode="file-native", localSubscriptions=[{"filters": [f"{name}/#"]} for name in ("one", "zero", "held")]).line

    def depths() -> list[int]:
        return [route["depth"] for line in (memory, disk) for route in line.node.routes("line", "push")]

    for line in (memory, disk):
        line.go_away()
    with Client(memory.node.port) as here:
        here.publish_all([Message("push/x", b"", 1)] * 10)
    with Client(disk.node.port) as here:
        here.publish_all([Message("one/x", b"", 1)] * 10 + [Message("zero/x", b"", 0)] * 10 + [Message("held/x", b"", 0)] * 5)
        here.barrier()
    until(lambda: depths() == [10, 10, 10, 5], "all wait", detail=depths)
    assert disk.node.routes("line", "push")[2]["tier2"] == 5  # QoS 0 has nothing but this copy
    for line in (memory, disk):
        line.kill()
    assert depths() == [0, 10, 0, 0]
    assert disk.node.routes("line", "push")[2]["tier2"] == 0


@pytest.mark.parametrize("persist", [True, False])
@EVERY_QOS
def test_while_the_remote_is_away_messages_wait_in_both_tiers(scenes: Scenes, qos: int, persist: bool) -> None:
    scene = scenes() if persist else scenes(persist=False)
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.line.go_away()
        scene.publish(0, qos=qos)
        scene.shows(depth=1, tier2=1, inFlight=0, delivered=0)
        scene.publish(*range(1, TIER2), qos=qos)
        scene.shows(depth=TIER2, tier2=TIER2, inFlight=0, delivered=0)
        scene.publish(TIER2, qos=qos)  # beyond its bound tier 2 leaves the rest where it is
        scene.shows(depth=TIER2 + 1, tier2=TIER2, inFlight=0, delivered=0)
        scene.line.come_back()
        scene.arrives(there, *range(TIER2 + 1))
        assert {message.qos for message in there.messages} == {qos if persist else 0}


def test_attempts_are_1_2_and_4_seconds_apart_and_a_success_starts_again_from_1(scenes: Scenes) -> None:
    line = scenes().line

    def pauses() -> list[float]:
        """Every pause that the node has announced, as its log has them: however slow we look, none is missed."""
        text = (line.node.directory / "node.log").read_text()
        return [float(pause) for pause in re.findall(r"bridge line: .*; next attempt in (\d+\.\d) s", text)]

    before = len(pauses())
    line.go_away()
    assert line.bridge["lastError"]
    until(lambda: len(pauses()) >= before + 3, "three pauses")
    until(lambda: line.bridge["nextAttemptIn"], "the next attempt is shown")
    assert "cannot reach" in line.bridge["lastError"]
    line.come_back()
    assert line.bridge["nextAttemptIn"] is None
    assert "cannot reach" in line.bridge["lastError"]  # what was wrong stays to be read
    again = len(pauses())
    line.go_away()
    until(lambda: len(pauses()) > again, "a pause")
    announced = [*pauses()[before : before + 3], pauses()[again]]
    assert all(least <= pause <= 1.3 * least for least, pause in zip((1, 2, 4, 1), announced, strict=True)), announced


@EVERY_QOS
def test_on_reconnect_tier_2_goes_first_and_tier_1_follows(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.line.go_away()
        scene.publish(*range(30), qos=qos)
        scene.shows(depth=30, tier2=TIER2)
        scene.line.come_back()
        scene.publish(*range(30, 40), qos=qos)
        scene.arrives(there, *range(40))
        scene.shows(delivered=40, depth=0, tier2=0, inFlight=0)


@TRACKED
def test_what_was_not_acknowledged_is_sent_again_and_leaves_the_queue_only_then(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        resent = scene.wire.resent["out"]
        swallowed = scene.wire.swallow(ANSWERS[qos], None)
        scene.publish(1, qos=qos)
        swallowed.wait()
        scene.line.go_away()
        scene.shows(depth=1, inFlight=1, delivered=0)
        scene.line.come_back()
        scene.shows(depth=0, inFlight=0, delivered=1)
        scene.arrives(there, *([1, 1] if qos == 1 else [1]))
        assert scene.wire.resent["out"] - resent == (1 if qos == 1 else 0)  # after PUBREC it is PUBREL that is sent again


@TRACKED
def test_a_missing_acknowledgement_leaves_the_message_pending_until_the_next_connection(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        swallowed = scene.wire.swallow(ANSWERS[qos])
        scene.publish(1, qos=qos)
        swallowed.wait()
        scene.publish(2, qos=qos)  # the others flow meanwhile
        scene.shows(delivered=1, depth=1, inFlight=1)
        scene.wire.cut()
        scene.shows(delivered=2, depth=0, inFlight=0)
        scene.arrives(there, *([1, 2, 1] if qos == 1 else [1, 2]))


@EVERY_QOS
def test_of_what_a_failed_send_took_along_qos_0_is_lost_and_the_others_are_tried_again(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.wire.hole()
        scene.publish(1, 2, 3, qos=qos)
        scene.shows(**({"delivered": 0, "inFlight": 3} if qos else {"delivered": 3, "inFlight": 0}))
        scene.line.go_away()
        scene.publish(4, 5, qos=qos)
        scene.line.come_back()
        scene.arrives(there, *([1, 2, 3, 4, 5] if qos else [4, 5]))


@TRACKED
def test_a_flapping_network_delivers_m1_to_m4_in_order(scenes: Scenes, qos: int) -> None:
    scene = scenes()
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.publish(1, qos=qos)  # the network is up
        scene.shows(delivered=1, depth=0)
        scene.line.go_away()
        scene.publish(2, 3, qos=qos)
        scene.shows(delivered=1, depth=2, tier2=2)
        swallowed = scene.wire.swallow(ANSWERS[qos], None)
        scene.wire.open()  # up briefly: M2 goes out, and down before its acknowledgement
        swallowed.wait()
        scene.line.go_away()
        scene.shows(delivered=1, depth=2)
        scene.publish(4, qos=qos)
        scene.line.come_back()  # up, and stable
        scene.shows(delivered=4, depth=0, inFlight=0)
        there.barrier()
        came = numbers(there, scene.topic)
        assert list(dict.fromkeys(came)) == [1, 2, 3, 4]
        assert qos == 1 or came == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["in-memory", "file-native"])
def test_of_15_waiting_8_held_and_3_in_flight_a_restart_keeps_what_the_mode_keeps(scenes: Scenes, mode: str) -> None:
    scene = scenes() if mode == "in-memory" else scenes(mode=mode)
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.wire.hole()
        scene.publish(*range(3), qos=1)
        scene.shows(inFlight=3)
        scene.line.go_away()
        scene.publish(*range(3, 15), qos=1)
        scene.shows(depth=15, tier2=8, inFlight=3)
        scene.line.kill()
        kept = 15 if mode == "file-native" else 0
        scene.shows(depth=kept, tier2=0, inFlight=0)
        scene.line.come_back()
        scene.arrives(there, *range(kept))


@TRACKED
def test_ten_restored_messages_are_delivered_as_if_nothing_had_happened(scenes: Scenes, qos: int) -> None:
    scene = scenes(mode="file-native")
    with Client(scene.line.remote.port) as there:
        there.subscribe(scene.topic)
        scene.line.go_away()
        scene.publish(*range(10), qos=qos)
        scene.line.kill()
        scene.shows(depth=10, inFlight=0)
        scene.line.come_back()
        scene.arrives(there, *range(10))
        scene.shows(depth=0)
