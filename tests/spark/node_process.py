"""A node in a process of its own, to be killed: prints the driver's process id when rows have crossed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from spark.host import Host, stored_rows


async def main() -> None:
    host = Host(Path(sys.argv[1]))
    host.supervisor.start()
    await host.ready()
    host.append(stored_rows([b"x"] * 5000, ["t"], ["route"]))
    await host.consumed()
    assert host.supervisor.driver is not None
    print(host.supervisor.driver.pid, flush=True)
    while True:
        host.append(stored_rows([b"x"] * 100, ["t"], ["route"]))
        await asyncio.sleep(0.01)


asyncio.run(main())
