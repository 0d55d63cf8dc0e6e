"""A node that is told to read its file again: whenever that is, and whatever it finds there."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead.app import Node
from bridgehead.errors import SettingsError, StartError
from bridgehead.settings.configuration import Configuration
from making.span import until

BRIDGE = {"id": "b", "host": "127.0.0.1", "port": 1, "localSubscriptions": [{"filters": ["a/#"]}]}


class File:
    """The configuration of a node without Spark, with these bridges."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "node.yaml"
        self.always: dict[str, Any] = {
            "dataDir": str(directory / "data"),
            "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": 0}],
            "console": {"host": "127.0.0.1", "port": 0},
            "pipeline": {"engine": "inline"},
            "watchFile": False,
        }

    def write(self, *bridges: object) -> None:
        self.path.write_text(yaml.safe_dump({**self.always, "bridges": list(bridges)}))

    def node(self) -> Node:
        configuration = Configuration.read(self.path, {})
        return Node(configuration.settings, configuration)


@pytest.fixture
def file(tmp_path: Path) -> File:
    found = File(tmp_path)
    found.write()
    return found


@pytest.fixture
async def node(file: File) -> AsyncIterator[Node]:
    """Not started yet; the bridge is added to its file."""
    node = file.node()
    file.write(BRIDGE)
    yield node
    await node.stop()


async def test_a_node_that_is_told_before_it_has_started_reads_the_file_when_it_has(node: Node) -> None:
    node.reload()
    await node.start()
    await until(lambda: list(node.bridges.services) == ["b"])


async def test_a_node_that_cannot_start_reads_nothing_more(file: File) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.always["console"] = {"host": "127.0.0.1", "port": taken.getsockname()[1]}
        file.write()
        node = file.node()
        node.reload()
        with pytest.raises(StartError):
            await node.start()
    await until(lambda: not node._reloads)


async def test_a_file_that_is_not_followed_is_told_until_it_is_again(node: Node, file: File) -> None:
    await node.start()
    file.write({**BRIDGE, "port": 0, "keepAlive": -1})
    node.reload()
    await until(lambda: bool(node.view().degraded()))
    (text,) = node.view().degraded()
    assert text.startswith("the configuration file is not followed: bridges[0].keepAlive")
    assert text.endswith("(and 1 more)")
    file.write(BRIDGE)
    node.reload()
    await until(lambda: not node.view().degraded())


def test_a_file_that_has_lost_its_text_is_a_fault_and_not_the_end_of_every_bridge(file: File) -> None:
    file.write(BRIDGE)
    configuration = Configuration.read(file.path, {})
    for nothing in ("", "# bridges:\n"):
        file.path.write_text(nothing)
        with pytest.raises(SettingsError, match="says nothing any more"):
            configuration.reread()
    empty = Configuration.read(file.path, {})
    assert empty.reread().settings == empty.settings
