"""kill -9 of any process of the Spark side in mid-flow: nothing lost, nothing doubled, order kept."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.pipeline.driverprocess import session_members
from spark.host import Host, stored_rows

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

ROWS = 50
TICK = 0.01
PATIENCE = 120.0


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def pids(host: Host, matching: str) -> list[int]:
    assert host.supervisor.driver is not None
    return [pid for pid in session_members(host.supervisor.driver.pid) if matching in command(pid)]


def workers(host: Host) -> list[int]:
    """The task workers, without the daemon that forks them."""
    _daemon, *forked = sorted(pids(host, "daemon pyspark.worker"))
    return forked


def jvm(host: Host) -> list[int]:
    return pids(host, "org.apache.spark.deploy.SparkSubmit")


def source_reader(host: Host) -> list[int]:
    return pids(host, "python_streaming_source_runner")


def driver(host: Host) -> list[int]:
    return pids(host, "bridgehead.pipeline.job")


class Device:
    """Appends numbered rows at a steady pace, all the while."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._next = 0
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            self._host.append(
                stored_rows([b"%d" % i for i in range(self._next, self._next + ROWS)], ["t"], self._host.routes)
            )
            self._next += ROWS
            await asyncio.sleep(TICK)

    @property
    def sent(self) -> int:
        return self._next

    async def stop(self) -> list[bytes]:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return [b"%d" % i for i in range(self._next)]


@pytest.mark.parametrize("victims", [workers, source_reader, jvm, driver])
async def test_killing_it_in_mid_flow_loses_and_doubles_nothing(
    host: Host, victims: Callable[[Host], list[int]]
) -> None:
    async with asyncio.timeout(PATIENCE):
        await host.ready()
        device = Device(host)
        await host.consumed(host.log.end + 20 * ROWS)
        found = victims(host)
        assert found
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        await host.consumed(host.log.end + 20 * ROWS)
        sent = await device.stop()
        await host.consumed()
    landed = {route: [p for b in host.take(route) for p in b.column("payload").to_pylist()] for route in host.routes}
    share = {route: i for i, route in enumerate(host.routes)}
    for route, got in landed.items():
        expected = [p for i, p in enumerate(sent) if i % ROWS % len(host.routes) == share[route]]
        assert got == expected


async def test_a_worker_that_is_killed_costs_no_restart_and_the_others_one(host: Host) -> None:
    """After the tests above: a lost task was repeated, a lost JVM and a lost driver were replaced."""
    assert host.supervisor.starts == 3


async def test_a_clean_stop_lets_the_running_batch_end_and_leaves_nothing_running(host: Host) -> None:
    async with asyncio.timeout(PATIENCE):
        await host.ready()
        device = Device(host)
        await host.consumed(host.log.end + 20 * ROWS)
        running = host.supervisor.driver
        assert running is not None
        await host.supervisor.stop(patience=20.0)
        await device.stop()
    assert running.ended.result() == 0
    assert session_members(running.pid) == []
    assert host.supervisor.state.phase == "stopped"
    landed = sum(batch.num_rows for route in host.routes for batch in host.take(route))
    assert landed == host.log.consumed - host.log.end + device.sent
