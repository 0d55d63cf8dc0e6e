"""A node that is killed leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

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
    async with asyncio.timeout(120):
        session = int(await node.stdout.readline())
    members = session_members(session)
    assert len(members) >= 5  # driver, JVM, the source's reader, a daemon, a worker
    endings = [os.pidfd_open(pid) for pid in members]
    try:
        node.send_signal(signal.SIGKILL)
        await node.wait()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(ended(pidfd) for pidfd in endings))
    finally:
        for pidfd in endings:
            os.close(pidfd)
    assert session_members(session) == []


async def ended(pidfd: int) -> None:
    """Return when the process behind the descriptor has ended."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(pidfd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(pidfd)
