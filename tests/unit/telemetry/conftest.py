"""A node with one bridge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridgehead.app import Node
from making.node import inline_node
from making.remote import Remote


@pytest.fixture
async def node(remote: Remote, tmp_path: Path) -> AsyncIterator[Node]:
    node = inline_node(tmp_path, remote.port)
    await node.start()
    yield node
    await remote.stop()  # else the node waits for acknowledgements before it stops
    await node.stop()
