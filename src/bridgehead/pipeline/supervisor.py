"""Keeps a driver running: starts it, watches it, starts it again with back-off, ends it with all that it brought up."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bridgehead import clock
from bridgehead.errors import StartError
from bridgehead.java import java_home
from bridgehead.pipeline.driverprocess import DriverProcess
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.watch import State, Watch

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two starts of a driver that ends, doubling from the first to the longest."""

RAN_WELL: Final = 30.0
"""A driver whose query ran so many seconds had a good start: the next pause is the first again."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What a driver is started with."""

    data_dir: Path
    queries: tuple[QueryConfig, ...]
    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict, repr=False)
    max_rows: int = 200_000
    max_bytes: int = 256 << 20
    checkpoint: str | None = None  # where queries with a memory keep it; None = in data_dir
    modules: str = ""  # a directory in which the modules of transforms are looked for


class Supervisor(Watch):
    """Used from the node's event loop."""

    def __init__(self, settings: PipelineSettings, gate: Gate, service: Service) -> None:
        super().__init__((query.log for query in settings.queries), service)
        self._settings = settings
        self._gate = gate
        self._service = service
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.driver: DriverProcess | None = None
        self._config: JobConfig | None = None  # what the driver was told last

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._keep_running(), name="pipeline")

    async def stop(self, patience: float = 10.0) -> None:
        """Let the running batch end, then the driver; what does not end in time is killed."""
        self._stopping = True
        deadline = clock.monotonic() + patience
        driver = self.driver
        if driver is not None and not driver.ended.done():
            self._service.freeze()
            if any(state.phase == "running" for state in self.queries.values()):
                await _within(deadline, self._service.at_rest.wait())
                driver.ask_to_stop()
            else:
                deadline = clock.monotonic()  # no batch runs: a driver that is still starting would not hear us
            if not await _within(deadline, asyncio.shield(driver.ended)):
                driver.kill()
                await driver.ended
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.forget_queries("stopped")
        self.set(State("stopped"))

    async def pause(self, patience: float = 10.0) -> None:
        """Let the running batch end, and let no other begin: what the driver does from now on is refused."""
        self._service.freeze()
        if self._has_driver and any(state.phase == "running" for state in self.queries.values()):
            await _within(clock.monotonic() + patience, self._service.at_rest.wait())
        self._gate.new_epoch()

    def go_on(self, queries: tuple[QueryConfig, ...]) -> None:
        """After a pause, with these queries: Spark stays as it is, if it is there."""
        self._settings = replace(self._settings, queries=queries)
        self.watch(query.log for query in queries)
        self._service.thaw()
        if self._has_driver and self._config is not None:
            assert self.driver is not None
            self._config = replace(self._config, epoch=self._gate.new_epoch(), queries=queries)
            self.driver.tell(self._config)

    @property
    def _has_driver(self) -> bool:
        return self.driver is not None and not self.driver.ended.done()

    async def _keep_running(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping:
            self.ran_since = None
            reason = await self._run_driver()
            if self._stopping:
                return
            self.forget_queries("stopped")
            if self.ran_since is not None and clock.monotonic() - self.ran_since >= RAN_WELL:
                pause = FIRST_PAUSE
            self.set(State("failed", reason, clock.monotonic() + pause))
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _run_driver(self) -> str:
        """One life of a driver; the reason of its end."""
        # Why the last attempt failed stays visible until one succeeds.
        self.set(State("starting", self.state.reason))
        settings = self._settings
        try:
            java = await asyncio.to_thread(java_home, os.environ, shutil.which, settings.data_dir / "java")
        except StartError as error:
            return str(error)
        self._service.thaw()
        self.forget_queries("starting")
        config = self._config = JobConfig(
            access=self._service.access,
            epoch=self._gate.new_epoch(),
            queries=settings.queries,
            data_dir=str(settings.data_dir.absolute()),
            java_home=str(java.path),
            master=settings.master,
            conf=settings.conf,
            max_rows=settings.max_rows,
            max_bytes=settings.max_bytes,
            checkpoint=settings.checkpoint,
            modules=settings.modules,
        )
        try:
            driver = self.driver = DriverProcess(config, settings.data_dir / "logs" / "driver.log")
        except OSError as error:
            return f"the driver cannot be started: {error}"
        self.starts += 1
        try:
            status = await asyncio.shield(driver.ended)
        finally:
            driver.kill()
        return f"the driver ended ({_status(status)}): {driver.reason}"


async def _within(deadline: float, awaitable: asyncio.Future[int] | object) -> bool:
    """Wait until then; whether it came in time."""
    try:
        async with asyncio.timeout(max(deadline - clock.monotonic(), 0.0)):
            await awaitable  # type: ignore[misc]
    except TimeoutError:
        return False
    return True


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
