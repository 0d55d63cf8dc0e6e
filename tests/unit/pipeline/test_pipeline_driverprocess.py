"""What the driver's processes print is read, kept in a small file, and never waited for."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bridgehead.pipeline import driverprocess as module
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.driverprocess import DriverProcess
from bridgehead.pipeline.jobconfig import JobConfig

LINES = 2_000
"""More than a pipe holds, if nobody reads it."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobConfig:
    """In the place of Spark: somebody who prints many lines, then a last one."""
    speaker = tmp_path / "speaker"
    speaker.write_text(f"#!/bin/sh\nset -e\nyes '{'.' * 99}' | head -n {LINES}\necho the last line\n")
    speaker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(speaker))
    return JobConfig(Access("grpc://127.0.0.1:1", "token"), 1, (), str(tmp_path), "", "local[1]", {})


def _let_it_go_on(command: str) -> None:
    speaker = Path(sys.executable)
    speaker.write_text(f"{speaker.read_text()}{command}\n")


async def test_what_it_prints_is_in_its_log(job: JobConfig, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "driver.log"
    driver = DriverProcess(job, log)
    assert await driver.ended == 0
    assert driver.reason == "the last line"
    assert log.read_text().splitlines()[-2:] == ["." * 99, "the last line"]


async def test_its_last_words_are_the_reason_even_when_it_ended_before_it_had_read_everything(
    job: JobConfig, tmp_path: Path
) -> None:
    log = tmp_path / "driver.log"
    _let_it_go_on(f"until grep -q 'last line' {log}; do sleep 0.01; done")
    more_than_a_pipe_holds = replace(job, modules="." * 1_000_000)
    driver = DriverProcess(more_than_a_pipe_holds, log)
    await driver.ended
    for thread in threading.enumerate():
        if thread.name == "driver-input":
            await asyncio.to_thread(thread.join)
    assert driver.reason == "the last line"


async def test_its_log_stays_small(job: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_BYTES", 10_000)
    log = tmp_path / "driver.log"
    await DriverProcess(job, log).ended
    kept = [log, log.with_suffix(".log.1")]
    assert all(file.stat().st_size <= 10_100 for file in kept)
    assert log.read_text().endswith("the last line\n")


async def test_on_a_full_disk_it_goes_on(job: JobConfig, tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.symlink_to("/dev/full")
    driver = DriverProcess(job, log)
    assert await driver.ended == 0
    assert driver.reason == "the last line"


async def test_lines_for_which_there_was_no_room_are_counted_where_the_next_one_stands(
    job: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = tmp_path / "driver.log", DriverProcess._write

    def write_on_a_full_disk(self: DriverProcess, text: bytes) -> None:
        if b"last line" not in text:
            raise OSError("No space left on device")
        write(self, text)

    monkeypatch.setattr(DriverProcess, "_write", write_on_a_full_disk)
    await DriverProcess(job, log).ended
    assert log.read_text() == f"({LINES} lines could not be written)\nthe last line\n"
