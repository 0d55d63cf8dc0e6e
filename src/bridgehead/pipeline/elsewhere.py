"""A pipeline on another machine than its nodes: it holds their leases and runs one driver for all of them.

One life: take the leases, start a driver with the first that is granted, tell it of every other as it comes. A node that is
away or whose lease somebody else holds costs only its own rows, which wait there. When the driver ends, all leases are
given up before the next life, so that a second pipeline that waits for them can go on at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Awaitable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Final

from bridgehead import clock
from bridgehead.java import java_home
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.driverprocess import DriverProcess
from bridgehead.pipeline.jobconfig import JobConfig
from bridgehead.pipeline.supervisor import FIRST_PAUSE, LONGEST_PAUSE, RAN_WELL
from bridgehead.pipeline.tenant import Granted, Tenant

REST: Final = 6.0
"""Seconds that running batches have to end in a clean stop."""

END: Final = 2.0
"""Seconds that a driver which was asked to end may take; it is killed then, and nothing is lost by that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ElsewhereSettings:
    """What a pipeline is told."""

    data_dir: Path
    accesses: tuple[Access, ...]
    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict, repr=False)
    max_rows: int = 200_000
    max_bytes: int = 256 << 20
    checkpoint: str | None = None
    modules: str = ""


class Elsewhere:
    """``bridgehead pipeline``, without its command line."""

    def __init__(self, settings: ElsewhereSettings) -> None:
        self._settings = settings
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._work, self._lock = _work_dir(settings.data_dir)
        self._java_home = ""
        self.driver: DriverProcess | None = None
        self._granted = asyncio.Event()
        self._jobs: dict[str, JobConfig] = {}  # of the nodes whose lease was granted in this life, by their address

    async def run(self, stopped: asyncio.Event) -> None:
        """Until then; StartError if there is no Java to run on."""
        home = await asyncio.to_thread(java_home, os.environ, shutil.which, self._work / "java")
        self._java_home = str(home.path)
        pause = FIRST_PAUSE
        while not stopped.is_set():
            started = clock.monotonic()
            await self._live(stopped)
            if stopped.is_set():
                break
            if clock.monotonic() - started >= RAN_WELL:
                pause = FIRST_PAUSE
            assert self.driver is not None
            log.warning("the driver ended: %s; next start in %.0f s", self.driver.reason, pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopped.wait()
            pause = min(pause * 2, LONGEST_PAUSE)
        self._lock.close()

    async def _live(self, stopped: asyncio.Event) -> None:
        """One life of a driver, with the leases that it works by."""
        self.driver = None
        self._jobs = {}
        self._granted.clear()
        tenants = [Tenant(access, self._holder, self._on_granted) for access in self._settings.accesses]
        holding = [asyncio.create_task(tenant.run()) for tenant in tenants]
        try:
            if await _first(self._granted.wait(), stopped.wait()):
                first, *others = self._jobs.values()
                driver = self.driver = DriverProcess(first, self._work / "logs" / "driver.log")
                for job in others:
                    driver.tell(job)
                await _first(asyncio.shield(driver.ended), stopped.wait())
        finally:
            running = self.driver is not None and not self.driver.ended.done()
            await asyncio.gather(*(tenant.finish(REST if running else 0.0) for tenant in tenants))
            await asyncio.gather(*holding)
            if self.driver is not None and not self.driver.ended.done():
                await self._end(self.driver)

    def _on_granted(self, granted: Granted) -> None:
        job = self._jobs[granted.access.address] = self._job(granted)
        if self.driver is not None:
            self.driver.tell(job)
        self._granted.set()

    def _job(self, granted: Granted) -> JobConfig:
        settings, job = self._settings, granted.job
        # Not in our own directory: who takes over must find it, and the logs of two nodes may have the same name.
        checkpoints = settings.checkpoint or str(settings.data_dir / "spark-checkpoints")
        return JobConfig(
            access=granted.access,
            epoch=granted.epoch,
            queries=job.queries,
            data_dir=str(self._work),
            java_home=self._java_home,
            master=settings.master,
            conf=settings.conf,
            max_rows=min(settings.max_rows, job.max_rows),
            max_bytes=min(settings.max_bytes, job.max_bytes),
            checkpoint=f"{checkpoints.rstrip('/')}/{job.node}",
            modules=settings.modules,
            accesses=settings.accesses,
        )

    async def _end(self, driver: DriverProcess) -> None:
        driver.ask_to_stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END):
                await asyncio.shield(driver.ended)
        driver.kill()
        await driver.ended


def _work_dir(data_dir: Path) -> tuple[Path, IO[bytes]]:
    """A directory that no other pipeline of this machine uses now, and the lock that says so until we end, however we do."""
    for number in count():
        directory = data_dir / f"pipeline-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return directory, lock
    raise AssertionError  # there is always a next number


async def _first(wanted: Awaitable[object], other: Awaitable[object]) -> bool:
    """Wait for either; whether the wanted one came."""
    tasks = [asyncio.ensure_future(each) for each in (wanted, other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return bool(tasks[0].done())
    finally:
        for task in tasks:
            task.cancel()
