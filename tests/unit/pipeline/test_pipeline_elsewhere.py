"""A pipeline on another machine than its node, without Spark: with a Java that is not one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bridgehead.java import JavaHome
from bridgehead.pipeline import elsewhere
from bridgehead.pipeline.driverprocess import session_members
from bridgehead.pipeline.elsewhere import Elsewhere, ElsewhereSettings
from bridgehead.pipeline.entrance import Entrance
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig
from bridgehead.pipeline.lease import LeaseDesk
from bridgehead.pipeline.watch import State
from bridgehead.storage.journal import SHARED
from spark.host import Host

PATIENCE = 60.0


class LeasedNode:
    """A node whose pipeline is elsewhere."""

    def __init__(self, directory: Path) -> None:
        self.host = Host(directory, entrance=Entrance(token="t"))
        job = NodeJob("plant", (QueryConfig(SHARED, self.host.rules),), 1000, 1 << 20)
        self.desk = LeaseDesk(self.host.gate, self.host.service, job)
        self.desk.start()
        self._states: asyncio.Queue[State] = asyncio.Queue()
        self.desk.on_change = self._states.put_nowait

    async def comes_to(self, phase: str) -> State:
        async with asyncio.timeout(PATIENCE):
            while (state := await self._states.get()).phase != phase:
                continue
        return state


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[LeasedNode]:
    node = LeasedNode(tmp_path / "node")
    yield node
    await node.desk.stop()
    await node.host.service.stop()


def use_java(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    java = directory / "fake" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setattr(elsewhere, "java_home", lambda *_: JavaHome(java.parent.parent, 17, "JAVA_HOME"))
    monkeypatch.setattr(elsewhere, "FIRST_PAUSE", 0.01)


def settings(node: LeasedNode, directory: Path) -> ElsewhereSettings:
    return ElsewhereSettings(directory, (node.host.service.access,))


async def test_a_driver_that_ends_gives_the_lease_up_and_the_next_one_has_a_new_epoch(
    node: LeasedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java(monkeypatch, tmp_path, "exit 3")
    stopped = asyncio.Event()
    pipeline = Elsewhere(settings(node, tmp_path / "data"))
    running = asyncio.create_task(pipeline.run(stopped))
    epochs = set()
    for _ in range(2):
        await node.comes_to("starting")
        epochs.add(node.host.gate.epoch)
        assert "has ended" in (await node.comes_to("waiting")).reason
    assert len(epochs) == 2
    stopped.set()
    async with asyncio.timeout(PATIENCE):
        await running
    assert node.desk.holder is None
    assert "the JVM ended with status 3" in (tmp_path / "data" / "pipeline-0" / "logs" / "driver.log").read_text()


async def test_a_stop_while_spark_starts_ends_everything_and_gives_the_lease_up(
    node: LeasedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    use_java(monkeypatch, tmp_path, f"echo started > {started}; exec sleep 1000")
    stopped = asyncio.Event()
    pipeline = Elsewhere(settings(node, tmp_path / "data"))
    running = asyncio.create_task(pipeline.run(stopped))
    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(started.read_text)
        driver = pipeline.driver
        assert driver is not None
        stopped.set()
        await running
    assert session_members(driver.pid) == []
    assert node.desk.holder is None


async def test_pipelines_of_one_directory_do_not_share_what_they_work_in(node: LeasedNode, tmp_path: Path) -> None:
    told = settings(node, tmp_path / "data")
    first, second = Elsewhere(told), Elsewhere(told)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"pipeline-0", "pipeline-1"}
    stopped = asyncio.Event()
    stopped.set()
    for pipeline in (first, second):
        await pipeline.run(stopped)
    third = Elsewhere(told)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"pipeline-0", "pipeline-1"}
    await third.run(stopped)
