"""The difference between two settings, held against its laws, whatever the two are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.node.difference import Parts, difference, followed
from bridgehead.settings.load import from_document
from bridgehead.settings.model import Settings

RULES = st.fixed_dictionaries(
    {"filters": st.sampled_from([["a/#"], ["b/#"], ["a/#", "b/#"]])},
    optional={"maxQoS": st.integers(0, 2), "engine": st.just("inline"), "queueLimit": st.integers(1, 3)},
)
BRIDGES = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["one", "two", "three"]),
        "host": st.just("example.com"),
        "localSubscriptions": st.lists(RULES, max_size=2, unique_by=lambda rule: str(sorted(rule["filters"]))),
    },
    optional={
        "keepAlive": st.integers(10, 12),
        "persist": st.booleans(),
        "password": st.sampled_from(["x", "y"]),
        "username": st.just("u"),
        "port": st.sampled_from([1883, 1884]),
    },
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "node": "edge",
        "bridges": draw(st.lists(BRIDGES, max_size=3, unique_by=lambda bridge: str(bridge["id"]))),
        **draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "queuedMessages": st.fixed_dictionaries({"maxQueuedMessages": st.integers(5, 6)}),
                    "pipeline": st.fixed_dictionaries({"engine": st.sampled_from(["spark", "inline"])}),
                    "journal": st.fixed_dictionaries({"maxBytes": st.integers(7, 8)}),
                },
            )
        ),
    }


SETTINGS = documents().map(from_document)


def every(parts: Parts) -> list[str]:
    return sorted([*parts.kept, *parts.changed, *parts.added, *parts.removed])


@given(documents())
def test_settings_that_say_the_same_differ_in_nothing(document: dict[str, Any]) -> None:
    one, other = from_document(document), from_document(document)
    found = difference(one, other)
    assert not found
    assert found.at_next_start == ()
    assert found.bridges.kept == tuple(bridge.id for bridge in one.bridges)


@given(documents())
def test_a_default_that_is_written_down_is_no_difference(document: dict[str, Any]) -> None:
    spelled = {**document, "bridges": [{"cleanStart": False, "mqttVersion": 5, **each} for each in document["bridges"]]}
    assert not difference(from_document(document), from_document(spelled))


@given(SETTINGS, SETTINGS)
def test_every_bridge_and_every_route_is_in_exactly_one_part(old: Settings, new: Settings) -> None:
    found = difference(old, new)
    assert every(found.bridges) == sorted({each.id for settings in (old, new) for each in settings.bridges})
    assert every(found.routes) == sorted({each.id for settings in (old, new) for each in settings.routes()})


@given(SETTINGS, SETTINGS)
def test_there_and_back_is_the_mirror_image(old: Settings, new: Settings) -> None:
    there, back = difference(old, new), difference(new, old)
    assert (set(there.bridges.added), set(there.routes.added)) == (set(back.bridges.removed), set(back.routes.removed))
    assert (set(there.bridges.changed), set(there.routes.changed)) == (set(back.bridges.changed), set(back.routes.changed))


@given(SETTINGS, SETTINGS)
def test_a_bridge_is_kept_only_if_all_that_it_is_made_of_is_equal(old: Settings, new: Settings) -> None:
    found = difference(old, new)
    changed = {*found.routes.changed, *found.routes.added, *found.routes.removed}
    for name in found.bridges.kept:
        assert next(each for each in old.bridges if each.id == name) == next(each for each in new.bridges if each.id == name)
        assert not {route.id for settings in (old, new) for route in settings.routes() if route.bridge == name} & changed


@given(SETTINGS, SETTINGS)
def test_who_has_followed_has_nothing_left_to_follow(old: Settings, new: Settings) -> None:
    now = followed(old, new)
    assert not difference(now, new)
    assert set(difference(now, new).at_next_start) <= {"journal"}
