"""Who gets in, against one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.batches import constant_label
from bridgehead.pipeline.admission import DISK, DROPPED, HELD, TOLD, Verdict, guarded, judge
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.rows import wire_rows

ROUTES = ("a", "b", "c")
MUCH = 1 << 40

rows_sent = st.lists(
    st.tuples(
        st.integers(1, 4),  # who: 1 and 2 speak MQTT 5, 3 and 4 speak 3.1.1
        st.sets(st.sampled_from(ROUTES), max_size=3),  # which routes want it
        st.integers(0, 2),  # QoS
        st.integers(0, 200),  # size of the payload
    ),
    min_size=1,
    max_size=40,
)
heavier = st.fixed_dictionaries({route: st.sampled_from([0, 0, 30, 400]) for route in ROUTES})  # by a user property
limits = st.fixed_dictionaries({route: st.tuples(st.integers(1, 12), st.sampled_from([MUCH, 500, 1500])) for route in ROUTES})


def one_by_one(
    sent: list[Any], limit: dict[str, tuple[int, int]], added: dict[str, int], low: bool, behind: set[int]
) -> list[Any]:
    """What becomes of each row: True (gets in), or a manner."""
    used = {route: [0, 0] for route in ROUTES}
    held = set(behind)
    fate: list[Any] = []
    for who, wanting, qos, size in sent:
        if who in held:
            fate.append(HELD)
            continue
        full = any(used[route][0] >= limit[route][0] or used[route][1] >= limit[route][1] for route in wanting)
        if not full and not (low and qos):
            for route in wanting:
                used[route][0] += 1
                used[route][1] += 64 + len("/".join(sorted(wanting)) or "-") + size + added[route]
            fate.append(True)
        elif qos == 0:
            fate.append(DROPPED)
        elif who <= 2:
            fate.append(TOLD)
        else:
            held.add(who)
            fate.append(HELD)
    return fate


@settings(max_examples=300, deadline=None)
@given(sent=rows_sent, limit=limits, added=heavier, low=st.booleans(), behind=st.sets(st.integers(3, 4)))
def test_all_rows_at_once_are_judged_as_one_by_one(
    sent: list[Any], limit: dict[str, tuple[int, int]], added: dict[str, int], low: bool, behind: set[int]
) -> None:
    engine = MemoryEngine()
    journal = Journal(engine, MUCH)
    doors = {route: Door(DoorRule(route, "bridge", ("#",)), journal.log(SHARED)) for route in ROUTES}
    for route, door in doors.items():
        properties = (("", "v" * added[route]),) if added[route] else ()
        rules = RouteRules(route, user_properties=properties, count_hops=False)
        door.room = Room(Outbox(route, engine, *limit[route], strategy="refuse"), journal, rules)
    topics = ["/".join(sorted(wanting)) or "-" for _, wanting, _, _ in sent]
    batch = wire_rows(*({"topic": t, "payload": bytes(row[3]), "qos": row[2]} for t, row in zip(topics, sent, strict=True)))
    groups = [
        (tuple(doors[route] for route in ROUTES if route in topic.split("/")), np.flatnonzero(np.array(topics) == topic))
        for topic in dict.fromkeys(topics)
    ]
    conns = np.array([row[0] for row in sent], np.int64)
    qos = np.array([row[2] for row in sent])
    manners = np.where(qos == 0, DROPPED, np.where(conns <= 2, TOLD, HELD)).astype(np.uint8)
    verdict = Verdict(conns, manners)
    for who in sorted(behind & set(conns.tolist())):
        verdict.hold(who, int(np.argmax(conns == who)), None)
    if low:
        verdict.keep_out(np.flatnonzero((qos > 0) & verdict.admitted), DISK)
    judge(verdict, guarded(groups, batch), batch, constant_label("c", len(sent)))

    found: list[Any] = [True if admitted else None for admitted in verdict.admitted]
    for who in verdict.held:
        for at in verdict.held_rows(who):
            assert found[at] is None
            found[at] = HELD
    for manner in (TOLD, DROPPED):
        for _, out in verdict.refused(manner):
            for at in out:
                assert found[at] is None
                found[at] = manner
    assert found == one_by_one(sent, limit, added, low, behind)
