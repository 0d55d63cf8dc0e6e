"""``bridgehead prepare``: what every start would otherwise do again, done once for this Python environment.

The kernels are compiled. A node runs some messages through Spark, while Java writes down which classes that takes, and then
makes an archive of them that later starts share.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bridgehead.app import Node
from bridgehead.demo.client import DemoClient
from bridgehead.errors import CommandError
from bridgehead.java import java_home
from bridgehead.pipeline import classarchive, jvm
from bridgehead.settings.load import from_document
from bridgehead.storage import kernels as storage_kernels
from bridgehead.telemetry.audit import account
from bridgehead.wire import kernels

WITHIN: Final = 300.0
"""Seconds for Spark to start and take the messages."""
MESSAGES: Final = 200
LOOK_AGAIN: Final = 0.1


async def prepare(*, again: bool = False) -> str:
    """Prepare what is not; returns what came of it."""
    await asyncio.to_thread(kernels.warm)
    await asyncio.to_thread(storage_kernels.warm)
    with tempfile.TemporaryDirectory(prefix="bridgehead-prepare-") as name:
        home = Path(name)
        java = await asyncio.to_thread(java_home, os.environ, shutil.which, home / "java")
        archive = classarchive.location(java.path)
        if archive.is_file() and not again:
            return f"{archive} is there already"
        classes = home / "classes"
        try:
            async with asyncio.timeout(WITHIN):
                await _run_some(home, classes)
        except TimeoutError:
            raise CommandError(f"Spark has not taken {MESSAGES} messages within {WITHIN:.0f} s") from None
        await asyncio.to_thread(classarchive.make, java.path / "bin" / "java", jvm.class_path(), classes, archive)
    return f"{archive}: {archive.stat().st_size >> 20} MiB, Spark starts in half the time from now on"


async def _run_some(home: Path, classes: Path) -> None:
    """Messages go through Spark, once as they are and once through SQL, and wait for a remote that is not there."""
    node = Node(from_document(_document(home, classes)))
    await node.start()
    try:
        await _until(lambda: not node.view().unready())
        client = DemoClient("prepare")
        await client.connect(node.ports[0])
        client.publish([f"a/{n}" for n in range(MESSAGES)], [b"1"] * MESSAGES)
        await _until(lambda: all(has["entered"] == MESSAGES for has in account(node.view())["routes"].values()))
        client.close()
    finally:
        await node.stop()


def _document(home: Path, classes: Path) -> dict[str, Any]:
    routes: list[dict[str, Any]] = [{"filters": ["a/#"]}, {"filters": ["a/+"], "transform": {"sql": "SELECT * FROM messages"}}]
    return {
        "node": "prepare",
        "dataDir": str(home / "data"),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": 0}],
        "console": {"host": "127.0.0.1", "port": 0},
        "pipeline": {"conf": {"spark.driver.extraJavaOptions": classarchive.note_classes(classes)}},
        "bridges": [{"id": "nowhere", "host": "127.0.0.1", "port": 1, "localSubscriptions": routes}],
    }


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - seen from outside
        await asyncio.sleep(LOOK_AGAIN)
