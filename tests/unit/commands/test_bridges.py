"""``bridgehead bridges`` and ``bridgehead reload``: what a person sees."""

from __future__ import annotations

from bridgehead.commands.bridges import _line, text_of

BRIDGE = {
    "id": "cloud",
    "host": "example.com",
    "port": 1883,
    "hosts": None,
    "localSubscriptions": [{}, {}],
    "remoteSubscriptions": [],
    "status": {"runtime": "STARTED", "connection": "DISCONNECTED", "message": "no route to host"},
}


def test_a_bridge_is_one_line_with_what_is_wrong() -> None:
    assert _line(BRIDGE) == "cloud  started, disconnected (no route to host)  example.com:1883  2 push, 0 pull"


def test_every_address_of_a_bridge_is_told() -> None:
    hosts = [{"host": "one"}, {"host": "two", "port": 8883}]
    assert "  one:1883, two:8883  " in _line({**BRIDGE, "host": None, "hosts": hosts})


def test_what_a_reload_has_changed_is_told_and_what_it_could_not() -> None:
    found = {"added": ["a"], "changed": [], "removed": ["b", "c"], "kept": ["d"], "atNextStart": ["journal"]}
    assert text_of(found) == "added: a\nremoved: b, c\n1 bridge as before\nat the next start: journal"
