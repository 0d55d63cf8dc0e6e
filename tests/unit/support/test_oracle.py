"""The oracle must find every kind of fault, or its silence proves nothing."""

from __future__ import annotations

from support.oracle import Oracle, Tally, Topic, sums_that_do_not_hold


def asked(qos: int, count: int = 6) -> tuple[Oracle, Topic, list[bytes]]:
    oracle = Oracle()
    topic = oracle.topic(f"push/{qos}", qos)
    messages = oracle.hand_out(topic, count)
    oracle.acknowledged(topic, [number for number, _ in messages])
    return oracle, topic, [payload for _, payload in messages]


def test_what_came_as_it_was_sent_is_right() -> None:
    for qos in (0, 1, 2):
        oracle, topic, payloads = asked(qos)
        assert oracle.judge({topic.name: payloads}) == []


def test_what_was_acknowledged_and_did_not_come_is_lost_unless_it_was_qos_0() -> None:
    for qos, faults in ((0, 0), (1, 1), (2, 1)):
        oracle, topic, payloads = asked(qos)
        assert len(oracle.judge({topic.name: payloads[1:]})) == faults


def test_what_was_not_acknowledged_may_be_missing() -> None:
    oracle, topic, payloads = asked(1)
    oracle.hand_out(topic, 5)
    assert oracle.judge({topic.name: payloads}) == []


def test_what_nobody_sent_is_found() -> None:
    oracle, topic, payloads = asked(1)
    assert oracle.judge({topic.name: payloads, "else": [b"0|"]})
    assert oracle.judge({topic.name: [*payloads, topic.payload(6)]})


def test_what_became_of_the_messages_is_counted_by_topic() -> None:
    oracle, topic, payloads = asked(2)
    assert oracle.tallies({topic.name: [*payloads[1:], payloads[2]]}) == {"push/2": Tally(handed_out=6, lost=1, doubled=1)}


def test_a_changed_payload_is_found() -> None:
    oracle, topic, payloads = asked(1)
    assert oracle.judge({topic.name: [*payloads[:-1], payloads[-1] + b"x"]})


def test_a_wrong_order_is_found_and_a_late_qos_2_message_is_allowed_when_its_handshake_vanished() -> None:
    for qos in (0, 1, 2):
        oracle, topic, payloads = asked(qos)
        swapped = [*payloads[1:], payloads[0]]
        assert oracle.judge({topic.name: swapped})
        assert bool(oracle.judge({topic.name: swapped}, late={"push": 1})) == (qos != 2)


def test_doubles_are_allowed_at_qos_1_alone_and_only_as_many_as_were_sent_again() -> None:
    for qos in (0, 1, 2):
        oracle, topic, payloads = asked(qos)
        doubled = {topic.name: [*payloads, payloads[-1]]}
        assert oracle.judge(doubled, {"push": 0})
        assert bool(oracle.judge(doubled, {"push": 1})) == (qos != 1)


def test_doubles_of_qos_2_are_allowed_for_what_somebody_else_sent_as_new_and_no_more_often() -> None:
    for qos in (0, 1, 2):
        oracle, topic, payloads = asked(qos)
        twice = {topic.name: [*payloads, payloads[3]]}
        nothing = {"resent": {"push": 0}}
        assert bool(oracle.judge(twice, **nothing, as_new=[payloads[3]])) == (qos != 2)
        assert oracle.judge(twice, **nothing, as_new=[payloads[2]])
        assert oracle.judge({topic.name: [*payloads, *payloads[3:4] * 2]}, **nothing, as_new=[payloads[3]])


def test_sums_that_do_not_add_up_are_found() -> None:
    route = {"received": 5, "droppedBefore": {"excluded": 1}, "entered": 3, "delivered": 1, "dropped": {"x": 1}, "depth": 1}
    status = {"routes": {"r": route}, "journal": {"shared": {"waiting": 1}}}
    assert sums_that_do_not_hold(status) == []
    assert sums_that_do_not_hold({**status, "journal": {"shared": {"waiting": 0}}})
    assert sums_that_do_not_hold({**status, "routes": {"r": {**route, "delivered": 2}}})
