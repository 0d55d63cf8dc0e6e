"""How fast Spark moves rows from journal to outbox, without MQTT: ``python tests/spark/measure.py [--conf K=V] ...``.

Prints rows/s with a full journal, and latency from append to commit at fixed rates, with the CPU seconds a million rows
cost on the Spark side (driver, JVM, workers) and in the node. A measuring tool, not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bridgehead.pipeline.driverprocess import session_members
from spark.host import Host, stored_rows

TICK = 0.005
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def spark_cpu(session: int) -> dict[str, float]:
    """CPU seconds so far by kind of process."""
    seconds = {"java": 0.0, "python": 0.0}
    for pid in session_members(session):
        fields = Path(f"/proc/{pid}/stat").read_text()
        kind = "java" if "(java)" in fields else "python"
        numbers = fields.rpartition(")")[2].split()
        seconds[kind] += sum(map(int, numbers[11:15])) / TICKS_A_SECOND
    return seconds


class Meter:
    """CPU between two points in time, as text for so many rows."""

    def __init__(self, host: Host) -> None:
        assert host.supervisor.driver is not None
        self._session = host.supervisor.driver.pid
        self._spark, self._node, self._time = spark_cpu(self._session), time.process_time(), time.perf_counter()

    def report(self, name: str, rows: int, batches: int, extra: str = "") -> None:
        elapsed = time.perf_counter() - self._time
        now = spark_cpu(self._session)
        per_million = {kind: (now[kind] - self._spark[kind]) * 1e6 / rows for kind in now}
        node = (time.process_time() - self._node) * 1e6 / rows
        total = sum(per_million.values())
        a_batch = {kind: (now[kind] - self._spark[kind]) * 1e3 / batches for kind in now}
        print(
            f"{name:>12}: {rows / elapsed:>9,.0f} rows/s  spark {total:5.2f} CPU s/M "
            f"(java {per_million['java']:5.2f}, python {per_million['python']:5.2f})  node {node:5.2f}  "
            f"{batches} batches of {a_batch['java']:.0f} + {a_batch['python']:.0f} CPU ms, {extra}",
            flush=True,
        )


async def full_journal(host: Host, rows: int) -> None:
    batch = stored_rows([b"x" * 100] * 1000, [f"factory/line/{i}" for i in range(50)], host.routes)
    for _ in range(rows // 1000):
        host.append(batch)
    meter, batches = Meter(host), host.gate.stats("shared").batches
    await host.consumed()
    meter.report("full", rows, host.gate.stats("shared").batches - batches)
    drain(host)


async def steady(host: Host, rate: int, seconds: float) -> None:
    rows_a_tick = int(rate * TICK)
    batch = stored_rows([b"x" * 100] * rows_a_tick, [f"factory/line/{i}" for i in range(50)], host.routes)
    sent: list[tuple[int, float]] = []
    latencies: list[float] = []

    def committed(log: str) -> None:
        now = time.perf_counter()
        while sent and sent[0][0] <= host.log.consumed:
            latencies.append(now - sent.pop(0)[1])
        drain(host)
        before(log)

    before, host.gate.landing.on_commit = host.gate.landing.on_commit, committed
    meter, batches = Meter(host), host.gate.stats("shared").batches
    start = time.perf_counter()
    for tick in range(int(seconds / TICK)):
        host.append(batch)
        sent.append((host.log.end, time.perf_counter()))
        await asyncio.sleep(max(0.0, start + (tick + 1) * TICK - time.perf_counter()))
    await host.consumed()
    cycles = host.gate.stats("shared").batches - batches
    latencies.sort()
    meter.report(
        f"{rate}/s",
        rows_a_tick * int(seconds / TICK),
        cycles,
        f"p50 {statistics.median(latencies) * 1e3:.0f} ms, p99 {latencies[int(len(latencies) * 0.99)] * 1e3:.0f} ms, "
        f"cycle {seconds / cycles * 1e3:.0f} ms",
    )
    host.gate.landing.on_commit = before


def drain(host: Host) -> None:
    for route in host.routes:
        host.take(route)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rates", type=int, nargs="*", default=[5_000, 20_000])
    parser.add_argument("--routes", type=int, default=1)
    options = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp())
    host = Host(
        data_dir,
        [f"route{i}" for i in range(options.routes)],
        conf=dict(item.split("=", 1) for item in options.conf),
    )
    started = time.perf_counter()
    try:
        host.supervisor.start()
        await host.ready()
        print(f"ready after {time.perf_counter() - started:.1f} s, load {os.getloadavg()[0]:.1f}")
        await steady(host, 5_000, 8.0)  # the JVM compiles what it uses much
        for rate in options.rates:
            await steady(host, rate, options.seconds)
        await full_journal(host, options.rows // 2)
        await full_journal(host, options.rows)
    finally:
        await host.close()
        shutil.rmtree(data_dir)


if __name__ == "__main__":
    asyncio.run(main())
