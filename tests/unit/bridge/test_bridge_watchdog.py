"""The watchdog: when it bites and when it does not, with the time passed in; and what an uplink does when bitten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.bridge.service import _uplink_rule
from bridgehead.bridge.subscriptions import wishes_of
from bridgehead.bridge.watchdog import Watchdog, Work
from bridgehead.settings.bridge import Bridge
from bridgehead.wire.packets import Pingreq, Pingresp, Puback, Publish, Pubrec
from making.remote import Remote, Visit
from making.span import Span, until

Spans = Callable[..., Span]


def work(**given: Any) -> Work:
    nothing = Work(listening=True, in_flight=0, in_socket=0, waiting=False, acknowledged=0, taken=0, overtaken=None)
    return nothing._replace(**given)


@pytest.mark.parametrize("owed", [{"in_flight": 3}, {"in_socket": 3}, {"waiting": True}], ids=str)
def test_it_bites_when_something_is_to_be_done_and_nothing_moves(owed: dict[str, Any]) -> None:
    watchdog = Watchdog(30.0, now=100.0)
    assert watchdog.look(work(**owed), 100.0) is None
    assert watchdog.look(work(**owed), 129.9) is None
    assert str(watchdog.look(work(**owed), 130.0)).startswith("no progress for 30 s: ")


@pytest.mark.parametrize("moved", [{"acknowledged": 1}, {"taken": 1}], ids=str)
def test_any_progress_starts_the_seconds_again(moved: dict[str, Any]) -> None:
    watchdog = Watchdog(30.0, now=0.0)
    assert watchdog.look(work(in_flight=3), 29.0) is None
    assert watchdog.look(work(in_flight=3, **moved), 29.5) is None
    assert watchdog.look(work(in_flight=3, **moved), 59.0) is None
    assert watchdog.look(work(in_flight=3, **moved), 59.5) is not None


def test_it_bites_when_a_message_is_passed_over_though_others_move() -> None:
    watchdog = Watchdog(30.0, now=0.0)
    assert watchdog.look(work(in_flight=3, acknowledged=1, overtaken=7), 1.0) is None
    assert watchdog.look(work(in_flight=3, acknowledged=2, overtaken=7), 30.0) is None
    assert watchdog.look(work(in_flight=3, acknowledged=3, overtaken=7), 31.0) is not None


def test_a_remote_that_answers_late_and_in_another_order_passes_nobody_over() -> None:
    watchdog = Watchdog(30.0, now=0.0)
    for second in range(100):
        overtaken = None if second % 7 == 0 else second // 20
        assert watchdog.look(work(in_flight=3, acknowledged=second, overtaken=overtaken), float(second)) is None


def test_it_sleeps_while_there_is_nothing_to_do() -> None:
    watchdog = Watchdog(30.0, now=0.0)
    assert watchdog.look(work(), 1000.0) is None
    assert watchdog.look(work(in_flight=1), 1001.0) is None, "the seconds begin with the message"
    assert watchdog.look(work(in_flight=1), 1030.0) is not None


def test_acknowledgements_that_we_do_not_listen_to_are_not_missing() -> None:
    watchdog = Watchdog(30.0, now=0.0)
    assert watchdog.look(work(in_flight=1, listening=False), 1000.0) is None
    assert watchdog.look(work(in_flight=1), 1029.0) is None


@pytest.mark.parametrize(
    ("said", "seconds"), [({}, 90.0), ({"keepAlive": 10}, 30.0), ({"keepAlive": 0}, 30.0), ({"watchdog": 5}, 5.0)], ids=str
)
def test_unless_told_it_waits_for_keep_alive_and_for_30_seconds_at_least(said: dict[str, Any], seconds: float) -> None:
    bridge = Bridge.model_validate({"id": "b", "host": "h", **said})
    assert _uplink_rule(bridge, wishes_of(bridge, bridge.routes())).watchdog == seconds


async def pinging(visit: Visit, *, answer_pings: bool = True) -> list[Publish]:
    """Answer nothing but pings until the connection ends."""
    seen = []
    while (packet := await visit.read()) is not None:
        if isinstance(packet, Publish):
            seen.append(packet)
        elif isinstance(packet, Pingreq) and answer_pings:
            visit.send(Pingresp())
    return seen


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_remote_that_answers_pings_and_acknowledges_nothing_is_left_and_the_message_sent_again(
    remote: Remote, span: Spans, qos: int
) -> None:
    bridge = span(watchdog=0.2, keep_alive=1)
    bridge.land(2, qos=qos)
    visit = await remote.accept()
    assert len(await pinging(visit)) == 2
    again = await remote.accept(session_present=True)
    assert [(int(one.payload), one.dup) for one in await again.publishes(2)] == [(0, True), (1, True)]
    assert bridge.uplink.status.watchdog_resets == 1
    assert "2 messages are in flight and none was acknowledged" in str(bridge.uplink.status.watchdog_reason)


async def test_new_messages_that_the_kernel_takes_are_no_progress_while_old_ones_wait_for_their_acknowledgement(
    remote: Remote, span: Spans
) -> None:
    bridge = span(watchdog=0.2)
    bridge.land(1)
    visit = await remote.accept()
    while bridge.uplink.status.watchdog_resets == 0:
        bridge.land(1, qos=0)
        assert await visit.read() is not None or bridge.uplink.status.watchdog_resets
    assert bridge.uplink.status.watchdog_resets == 1


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_whose_acknowledgement_is_lost_is_sent_again_though_traffic_goes_on(
    remote: Remote, span: Spans, qos: int
) -> None:
    bridge = span(watchdog=0.2)
    bridge.land(1, qos=qos)
    visit = await remote.accept()
    assert (await visit.publishes(1))[0].packet_id == 1
    while bridge.uplink.status.watchdog_resets == 0:
        bridge.land(1)
        packet = await visit.read()
        if isinstance(packet, Publish):
            visit.send(Puback(packet.packet_id))
    assert "later ones were" in str(bridge.uplink.status.watchdog_reason)
    again = await remote.accept(session_present=True)
    first = (await again.publishes(1))[0]
    assert (first.payload, first.packet_id, first.dup) == (b"0", 1, True)


async def test_a_pubrec_is_progress(remote: Remote, span: Spans) -> None:
    bridge = span()
    bridge.land(1, qos=2)
    visit = await remote.accept()
    await visit.publishes(1)
    before = bridge.uplink.outgoing.work()
    visit.send(Pubrec(1))
    await until(lambda: bridge.uplink.outgoing.work().acknowledged > before.acknowledged)


async def test_an_acknowledgement_of_nothing_is_no_progress(remote: Remote, span: Spans) -> None:
    bridge = span(watchdog=0.2)
    bridge.land(1)
    visit = await remote.accept()
    await visit.publishes(1)
    while bridge.uplink.status.watchdog_resets == 0:
        visit.send(Puback(77))
        bridge.land(1, qos=0)
        await visit.read()
    assert bridge.outboxes[0].dropped == {}


async def test_a_remote_that_reads_nothing_is_left_and_qos_0_is_sent_to_the_next_connection(
    remote: Remote, span: Spans
) -> None:
    bridge = span(watchdog=0.2)
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.pause()
    bridge.land(400, qos=0, content_type="x" * 50_000)
    await until(lambda: bridge.uplink.status.watchdog_resets == 1)
    taken = bridge.outboxes[0].delivered
    assert "wait in the socket" in str(bridge.uplink.status.watchdog_reason)
    again = await remote.accept(session_present=True)
    assert [int(one.payload) for one in await again.publishes(400 - taken)] == list(range(taken, 400))
    assert bridge.sums_hold


async def test_a_large_message_on_a_slow_line_is_not_interrupted(remote: Remote, span: Spans) -> None:
    bridge = span()
    visit = await remote.accept()
    await until(lambda: bridge.uplink.connected)
    visit.pause()
    bridge.land(1, payload=b"x" * 20_000_000)
    await until(lambda: bridge.uplink.in_flight > 0)
    before = bridge.uplink.outgoing.work()
    watchdog = Watchdog(30.0, now=0.0)
    assert watchdog.look(before, 29.0) is None
    visit.resume()
    await until(lambda: bridge.uplink.outgoing.work().taken > 20_000_000)
    after = bridge.uplink.outgoing.work()
    assert after.acknowledged == before.acknowledged == 0
    assert watchdog.look(after, 58.0) is None, "bytes alone are progress here"
    assert watchdog.look(after, 87.0) is None
    assert watchdog.look(after, 88.0) is not None, "and standing still is none"
