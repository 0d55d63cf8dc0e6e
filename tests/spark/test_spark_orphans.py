"""A node that is killed leaves nothing running, and nothing outside of its own directory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from bridgehead.pipeline.driverprocess import session_members

pytestmark = pytest.mark.spark

PATIENCE = 20.0


async def test_kill_9_of_the_node_ends_driver_jvm_and_workers(tmp_path: Path) -> None:
    node = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("node_process.py")),
        str(tmp_path),
        stdout=subprocess.PIPE,
    )
    assert node.stdout is not None
    endings: list[int] = []
    try:
        async with asyncio.timeout(120):
            session = int(await node.stdout.readline())
        members = session_members(session)
        assert len(members) >= 5  # driver, JVM, the source's reader, a daemon, a worker
        ours = (str(tmp_path), sys.prefix, str(Path(__file__).parents[2]))
        assert [file for pid in members for file in temporary_files(pid) if not file.startswith(ours)] == []
        endings = [os.pidfd_open(pid) for pid in members]
    finally:
        node.send_signal(signal.SIGKILL)
        await node.wait()
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(ended(pidfd) for pidfd in endings))
    finally:
        for pidfd in endings:
            os.close(pidfd)
    assert session_members(session) == []


def temporary_files(pid: int) -> list[str]:
    """What a process has open, or runs, in the folder for temporary files."""
    process = psutil.Process(pid)
    files = {*(file.path for file in process.open_files()), *(part.path for part in process.memory_maps())}
    return sorted(file for file in files if file.startswith(tempfile.gettempdir()))


async def ended(pidfd: int) -> None:
    """Return when the process behind the descriptor has ended."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(pidfd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(pidfd)
