"""One driver, or one remote broker, for all tests of a module: starting Spark takes seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from spark.host import Host
from support.mosquitto import Mosquitto

START = 120.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """A running pipeline with three routes; a module may set CONF."""
    data_dir: Path = tmp_path_factory.mktemp("data")
    host = Host(data_dir, routes=["a", "b", "c"], conf=getattr(request.module, "CONF", {}))
    host.supervisor.start()
    async with asyncio.timeout(START):
        await host.ready()
    yield host
    await host.close()


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("remote")).start()
    yield broker
    broker.stop()
