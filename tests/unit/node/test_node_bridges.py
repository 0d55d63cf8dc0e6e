"""Slots: a bridge becomes what it should be, the old connection first, whatever is said meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from bridgehead.bridge.service import BridgeService
from bridgehead.node.bridges import Bridges
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.load import from_document
from bridgehead.settings.model import Settings


class Consumer:
    def doors_changed(self) -> None:
        """Nothing is known of doors here."""


class Service:
    """What a slot does with a bridge, in order; a stop takes until the test lets it end."""

    def __init__(self, story: list[str], bridge: Bridge) -> None:
        self._story = story
        self._name = f"{bridge.id}{bridge.keep_alive}"
        self.consumer = Consumer()
        self.may_end = asyncio.Event()

    def start(self) -> None:
        self._story.append(f"start {self._name}")

    def rest(self) -> None:
        self._story.append(f"rest {self._name}")

    def let_go(self) -> None:
        """Publishers are not part of the story."""

    async def stop(self) -> None:
        self._story.append(f"ending {self._name}")
        await self.may_end.wait()
        self._story.append(f"ended {self._name}")


class Stage:
    def __init__(self) -> None:
        self.story: list[str] = []
        self.services: list[Service] = []
        self.bridges = Bridges(self._build)
        self.bridges.begin()

    def _build(self, bridge: Bridge, before: BridgeService | None) -> BridgeService:
        self.services.append(Service(self.story, bridge))
        return cast("BridgeService", self.services[-1])

    def say(self, stopped: tuple[str, ...] = (), **keep_alive: int) -> None:
        self.bridges.arrange(settings(**keep_alive), stopped)

    def let_all_end(self) -> None:
        for service in self.services:
            service.may_end.set()


def settings(**keep_alive: int) -> Settings:
    bridges: list[dict[str, Any]] = [{"id": name, "host": "h", "keepAlive": each} for name, each in keep_alive.items()]
    return from_document({"bridges": bridges})


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_what_is_as_before_does_not_notice(stage: Stage) -> None:
    stage.say(a=1, b=1)
    stage.say(a=1, b=1)
    assert stage.story == ["start a1", "start b1"]
    assert list(stage.bridges.services) == ["a", "b"]


async def test_a_new_connection_begins_when_the_old_one_has_ended(stage: Stage) -> None:
    stage.say(a=1)
    stage.say(a=2)
    await asyncio.sleep(0)
    assert stage.story == ["start a1", "ending a1"]
    stage.let_all_end()
    await stage.bridges.settled(["a"])
    assert stage.story == ["start a1", "ending a1", "ended a1", "start a2"]


async def test_what_was_said_meanwhile_and_taken_back_never_comes_to_be(stage: Stage) -> None:
    stage.say(a=1)
    for keep_alive in (2, 3, 4):
        stage.say(a=keep_alive)
        await asyncio.sleep(0)
    stage.let_all_end()
    await stage.bridges.settled()
    assert stage.story == ["start a1", "ending a1", "ended a1", "start a4"]


async def test_a_bridge_that_is_removed_and_added_while_it_ends_has_one_connection_at_a_time(stage: Stage) -> None:
    stage.say(a=1)
    stage.say()
    assert list(stage.bridges.services) == []
    await asyncio.sleep(0)
    stage.say(a=1)
    stage.let_all_end()
    await stage.bridges.settled()
    assert stage.story[0] == "start a1"
    assert stage.story.count("ending a1") == stage.story.count("start a1") - 1
    assert list(stage.bridges.services) == ["a"]


async def test_one_that_cannot_end_does_not_hold_up_another(stage: Stage) -> None:
    stage.say(a=1, b=1)
    stage.say(a=2, b=2)
    await asyncio.sleep(0)
    stage.services[1].may_end.set()
    await stage.bridges.settled(["b"])
    assert stage.story[-2:] == ["ended b1", "start b2"]
    assert "ended a1" not in stage.story


async def test_a_stopped_bridge_rests_and_a_restart_begins_only_what_runs(stage: Stage) -> None:
    stage.say(a=1)
    stage.let_all_end()
    stage.say(("a",), a=1)
    await stage.bridges.settled()
    assert (stage.story[-1], stage.bridges.runs("a")) == ("rest a1", False)
    stage.bridges.restart("a")
    await stage.bridges.settled()
    assert stage.story[-1] == "rest a1"
    stage.say(a=1)
    stage.let_all_end()
    stage.bridges.restart("a")
    stage.let_all_end()
    await stage.bridges.settled()
    assert stage.story[-3:] == ["ending a1", "ended a1", "start a1"]


async def test_nothing_begins_before_the_node_has_started() -> None:
    stage = Stage()
    stage.bridges = Bridges(stage._build)
    stage.say(("b",), a=1, b=1)
    assert (stage.story, list(stage.bridges.services)) == ([], ["a", "b"])
    stage.bridges.begin()
    assert stage.story == ["start a1", "rest b1"]


async def test_the_end_of_the_node_ends_all_that_run(stage: Stage) -> None:
    stage.say(("b",), a=1, b=1)
    stage.let_all_end()
    await stage.bridges.stop()
    assert stage.story == ["start a1", "rest b1", "ending a1", "ended a1"]
