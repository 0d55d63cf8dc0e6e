"""A whole node with the inline engine, in the test's own loop, and a scripted remote at the end of its bridge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridgehead.app import Node
from bridgehead.settings.load import from_document


def inline_node(directory: Path, remote_port: int, **given: Any) -> Node:
    """Pushes ``out/#`` to ``up/{#}`` and pulls ``in/#``."""
    document = {
        "node": "edge",
        "dataDir": str(directory),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": 0}],
        "console": {"host": "127.0.0.1", "port": 0},
        "pipeline": {"engine": "inline"},
        "bridges": [
            {
                "id": "cloud",
                "host": "127.0.0.1",
                "port": remote_port,
                "localSubscriptions": [{"filters": ["out/#"], "excludes": ["out/no/#"], "destination": "up/{#}"}],
                "remoteSubscriptions": [{"filters": ["in/#"]}],
            }
        ],
        **given,
    }
    return Node(from_document(document))
