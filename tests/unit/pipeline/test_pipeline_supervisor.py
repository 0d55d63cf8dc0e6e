"""Starting, watching and ending the driver, without Spark: with a Java that is not one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bridgehead.errors import StartError
from bridgehead.java import JavaHome
from bridgehead.pipeline import leash, supervisor
from bridgehead.pipeline.driverprocess import session_members
from bridgehead.pipeline.supervisor import State
from spark.host import Host

PATIENCE = 60.0


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(tmp_path)
    yield host
    await host.close()


async def state(host: Host, phase: str) -> State:
    """The first state of this phase from now on."""
    found: asyncio.Future[State] = asyncio.get_running_loop().create_future()

    def look(state: State) -> None:
        if state.phase == phase and not found.done():
            found.set_result(state)

    host.supervisor.on_change = look
    async with asyncio.timeout(PATIENCE):
        return await found


def use_java(monkeypatch: pytest.MonkeyPatch, bin_java: Path | None) -> None:
    def find(*_: object) -> JavaHome:
        if bin_java is None:
            raise StartError("Spark needs Java 17 or later: none found")
        return JavaHome(bin_java.parent.parent, 17, "JAVA_HOME")

    monkeypatch.setattr(supervisor, "java_home", find)


def fake_java(tmp_path: Path, script: str) -> Path:
    java = tmp_path / "fake" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


async def test_without_java_the_reason_is_told_and_the_start_is_tried_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    use_java(monkeypatch, None)
    host.supervisor.start()
    for _ in range(3):
        failed = await state(host, "failed")
        assert "none found" in failed.reason
        assert failed.next_attempt is not None
    assert not host.supervisor.ready


async def test_while_it_is_tried_again_the_reason_of_the_last_failure_stays_visible(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    use_java(monkeypatch, None)
    host.supervisor.start()
    await state(host, "failed")
    assert "none found" in (await state(host, "starting")).reason


async def test_a_jvm_that_ends_at_once_is_the_reason_and_each_start_has_its_epoch(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    use_java(monkeypatch, fake_java(tmp_path, "echo no memory; exit 3"))
    host.supervisor.start()
    first = await state(host, "failed")
    assert "the JVM ended with status 3" in first.reason
    epoch = host.gate.epoch
    assert "the JVM ended with status 3" in (await state(host, "failed")).reason
    assert host.gate.epoch > epoch
    assert "no memory" in (tmp_path / "logs" / "driver.log").read_text()


async def test_stopping_while_spark_starts_ends_everything_that_was_started(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    use_java(monkeypatch, fake_java(tmp_path, f"sleep 1000 & echo started > {started}; sleep 1000"))
    host.supervisor.start()
    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(started.read_text)
        driver = host.supervisor.driver
        assert driver is not None
        assert len(session_members(driver.pid)) >= 3
        await host.supervisor.stop(patience=0.1)
    assert session_members(driver.pid) == []
    assert host.supervisor.state.phase == "stopped"


async def test_the_token_is_on_no_command_line_and_the_users_configuration_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path, conf={"spark.hadoop.fs.s3a.secret.key": "hidden value=1"})
    java = fake_java(tmp_path, f'echo "$@" > {tmp_path}/arguments; cp "$(dirname $0)"/../../spark/spark.properties .; exit 1')
    monkeypatch.chdir(tmp_path)
    use_java(monkeypatch, java)
    host.supervisor.start()
    await state(host, "failed")
    await host.close()
    arguments = (tmp_path / "arguments").read_text()
    assert host.service.access.token not in arguments
    assert "hidden" not in arguments
    assert (tmp_path / "spark.properties").stat().st_mode & 0o077 == 0
    assert r"spark.hadoop.fs.s3a.secret.key hidden\ value\=1" in (tmp_path / "spark.properties").read_text()


def test_a_driver_whose_parent_is_gone_ends_at_once() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bridgehead.pipeline.job", "1"], stdin=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    assert ended.returncode == leash.ORPHANED


def test_a_driver_whose_input_ends_ends_with_it() -> None:
    script = (
        "import threading; from bridgehead.pipeline import leash; "
        "leash.watch_stdin(lambda line: print(line, flush=True)); threading.Event().wait()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input=b"stop\n", stdout=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    assert ended.returncode == leash.ORPHANED
    assert ended.stdout == b"stop\n"
