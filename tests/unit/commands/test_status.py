"""``bridgehead status``: what a person sees of a node."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from bridgehead.commands.status import _transform, status, text_of
from bridgehead.errors import NotRunningError
from bridgehead.settings.load import default_settings
from making.node import inline_node
from making.remote import Remote
from making.rows import numbered, wire_rows
from making.span import until


async def test_it_shows_the_node_its_bridges_and_its_routes(remote: Remote, tmp_path: Path) -> None:
    node = inline_node(tmp_path, remote.port)
    await node.start()
    visit = await remote.accept(receive_maximum=2)
    await visit.granted()
    node.broker.publish(wire_rows(*numbered(0, 5, topic="out/a"), {"topic": "out/no/b"}), "machine")
    await visit.publishes(2)
    console = node.settings.console.model_copy(update={"port": node.console_port})
    found = await asyncio.to_thread(status, node.settings.model_copy(update={"console": console}))
    lines = text_of(found).splitlines()
    assert lines[:2] == ["node edge: ready", "storage in-memory"]
    bridge = next(line for line in lines if line.startswith("cloud "))
    assert bridge.split() == ["cloud", "connected", "1", "2", "3600", "s", "0", "0"]
    push = next(line for line in lines if line.startswith("cloud.push"))
    waiting = push.split()
    assert (waiting[1], waiting[2], waiting[4]) == ("0", "5", "s")
    assert waiting[5:] == ["2", "0", "0", "0", "0"], "in flight, tier 2, delivered, dropped, dead letters"
    await remote.stop()
    await node.stop()


async def test_the_last_error_and_the_next_attempt_are_shown(remote: Remote, tmp_path: Path) -> None:
    node = inline_node(tmp_path, remote.port)
    await node.start()
    visit = await remote.accept()
    await visit.granted()
    visit.cut()
    await remote.stop()
    await until(lambda: node.view().snapshot()["bridges"]["cloud"]["nextAttemptIn"] is not None)
    shown = text_of(node.view().snapshot())
    await node.stop()
    assert "disconnected, next attempt in " in shown
    assert "cloud: last error 2" in shown


def test_what_was_dropped_is_shown_with_its_reason() -> None:
    route = {
        "droppedBefore": {"loop": 2, "excluded": 9}, "dropped": {"queue-full": 3, "expired": 1}, "deadLettered": {"refused": 4},
        "waiting": 0, "depth": 0, "oldestAge": None, "inFlight": 0, "tier2": 0, "delivered": 5,
    }  # fmt: skip
    gone = {name: value for name, value in route.items() if name not in ("inFlight", "tier2")}
    snapshot = {
        "node": "n", "ready": False, "unready": ["listeners do not accept yet"],
        "storage": {"mode": "file-native", "lostRows": 7}, "journal": {},
        "pipeline": {
            "state": "waiting", "reason": "no Java", "nextAttemptIn": 3.5, "starts": 2, "holder": "h/1", "ui": "http://h:4040",
        },
        "bridges": {},
        "routes": {"b.push.1": route}, "removedRoutes": {"b.push.2": gone},
    }  # fmt: skip
    assert text_of(snapshot).splitlines() == [
        "node n: not ready: listeners do not accept yet",
        "storage file-native, 7 messages lost by damage",
        "pipeline waiting: no Java, next attempt in 3.5 s, started 2 times, its lease is held by h/1, Spark's pages on http://h:4040",
        "",
        "route     journal  outbox  oldest  in flight  tier 2  delivered  dropped  dead letters",
        "b.push.1        0       0       -          0       0          5        6             4",
        "b.push.2        0       0       -          -       -          5        6             4",
        "b.push.1: dropped loop 2, queue-full 3, expired 1",
        "b.push.2: dropped loop 2, queue-full 3, expired 1",
        "b.push.2: not in the file any more",
    ]


def test_where_no_node_answers_one_line_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings = default_settings()
        console = settings.console.model_copy(update={"port": taken.getsockname()[1]})
        with pytest.raises(NotRunningError, match="no node answers"):
            status(settings.model_copy(update={"console": console}))


def test_what_can_be_read_again_and_what_is_forgotten_is_shown() -> None:
    kept = {"rows": 12, "bytes": 3456, "earliestOffset": 78, "earliestAt": "2026-11-16T00:10:52Z"}
    snapshot = {
        "node": "n", "ready": True, "unready": [], "storage": {}, "pipeline": None,
        "bridges": {}, "routes": {}, "removedRoutes": {},
        "journal": {
            "shared": {"retained": kept, "stateLost": None},
            "b.push.1": {"retained": {**kept, "rows": 0, "bytes": 0, "earliestAt": None}, "stateLost": {"from": 5, "to": 78}},
        },
    }  # fmt: skip
    assert text_of(snapshot).splitlines()[1:] == [
        "log shared retains 12 messages, 3456 bytes, from offset 78, received since 2026-11-16T00:10:52Z",
        "log b.push.1 retains 0 messages, 0 bytes, from offset 78",
        "log b.push.1: state lost, its transform has forgotten the offsets [5, 78)",
    ]


def test_a_transform_that_does_not_run_is_told_with_its_reason() -> None:
    failing = {"state": "failed", "reason": "ValueError: no number", "nextAttemptIn": 3.2}
    assert _transform("b.push.1", failing) == [
        "b.push.1: transform failed: ValueError: no number, next attempt in 3.2 s"
    ]
    assert _transform("b.push.1", {**failing, "state": "running"}) == []
    assert _transform("b.push.1", None) == []
