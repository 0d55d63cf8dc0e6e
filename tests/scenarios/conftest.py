"""The worlds that several scenarios share: one mosquitto, and one node for each engine with every bridge they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from scenarios.world import World
from support.mosquitto import Mosquitto
from support.node import NodeProcess


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("remote")).start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def world_of(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], World]]:
    """Starts the world of an engine when it is first asked for: a Spark start costs seconds."""
    worlds: dict[str, World] = {}

    def get(engine: str) -> World:
        if engine not in worlds:
            worlds[engine] = World(engine, remote, tmp_path_factory.mktemp(engine))
        return worlds[engine]

    yield get
    for world in worlds.values():
        world.node.stop()


ENGINES = [pytest.param("spark", marks=pytest.mark.spark), "inline"]


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, world_of: Callable[[str], World]) -> World:
    return world_of(request.param)


@pytest.fixture(scope="session")
def plain_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node without bridges: a broker."""
    node = NodeProcess(tmp_path_factory.mktemp("plain"), {"pipeline": {"engine": "inline"}}).start()
    yield node
    node.stop()
