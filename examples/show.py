"""Shows an example: ``python show.py NAME`` or, in a clone after ``make install``, ``examples/run NAME``.

Starts the node of the example and a second one as its remote, on ports that are free, publishes the messages of sample.yaml,
prints what arrives at the remote and ends: with status 0 when that is what sample.yaml expects.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from bridgehead.app import Node
from bridgehead.columns.batches import Batch
from bridgehead.demo.client import DemoClient
from bridgehead.settings.load import from_document, parse
from bridgehead.settings.model import Settings

EXAMPLES = Path(__file__).parent
PATIENCE = 300.0
LOOK_EVERY = 0.1

Message = tuple[str, bytes]


def names() -> list[str]:
    return sorted(path.parent.name for path in EXAMPLES.glob("*/node.yaml"))


def messages_of(rows: list[dict[str, Any]]) -> list[Message]:
    """Payloads are text, or bytes (``!!binary``)."""
    return [(row["topic"], row["payload"] if isinstance(row["payload"], bytes) else row["payload"].encode()) for row in rows]


def sample_of(folder: Path) -> tuple[list[Message], list[Message]]:
    """What goes in, and what comes out."""
    sample = yaml.safe_load((folder / "sample.yaml").read_text(encoding="utf-8"))
    return messages_of(sample["in"]), messages_of(sample["out"])


def settings_of(folder: Path, home: Path, remote_port: int) -> Settings:
    """Those of the example, with other ports and another place for its files."""
    document = yaml.safe_load((folder / "node.yaml").read_text(encoding="utf-8"))
    document |= {**listening("plant", home), "bridges": [{**document["bridges"][0], "port": remote_port}]}
    return parse(yaml.safe_dump(document), os.environ, folder)


def listening(name: str, home: Path) -> dict[str, Any]:
    return {
        "node": name,
        "dataDir": str(home / name),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": 0}],
        "console": {"host": "127.0.0.1", "port": 0},
    }


async def show(folder: Path, home: Path) -> bool:
    sent, expected = sample_of(folder)
    cloud = Node(from_document(listening("cloud", home)))
    await cloud.start()
    try:
        plant = Node(settings_of(folder, home, port_of(cloud)))
        await plant.start()
        try:
            return await crossing(plant, cloud, sent, expected)
        finally:
            await plant.stop()
    finally:
        await cloud.stop()


def port_of(node: Node) -> int:
    return int(node.ports[0])


async def crossing(plant: Node, cloud: Node, sent: list[Message], expected: list[Message]) -> bool:
    arrived: list[Message] = []

    def came(batch: Batch) -> None:
        for message in zip(batch.column("topic").to_pylist(), batch.column("payload").to_pylist(), strict=True):
            arrived.append(message)
            tell("out", message)

    watcher, device = DemoClient("watcher", came), DemoClient("device")
    await watcher.connect(port_of(cloud))
    await watcher.subscribe("#")
    await device.connect(port_of(plant))
    print("Spark starts ...", flush=True)
    try:
        async with asyncio.timeout(PATIENCE):
            await until(lambda: runs(plant) or failed(plant))
            for message in sent:
                tell("in", message)
            device.publish(*(list(each) for each in zip(*sent, strict=True)))
            await until(lambda: (len(arrived) >= len(expected) and is_empty(plant)) or failed(plant))
    except TimeoutError:
        print(f"not within {PATIENCE:.0f} s", file=sys.stderr)
    device.close()
    watcher.close()
    for reason in failed(plant):
        print(f"the transform fails: {reason}", file=sys.stderr)
    missing, surplus = Counter(expected) - Counter(arrived), Counter(arrived) - Counter(expected)
    for text, messages in (("missing", missing), ("unexpected", surplus)):
        for message in messages.elements():
            tell(text, message, sys.stderr)
    return not missing and not surplus


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - seen from outside
        await asyncio.sleep(LOOK_EVERY)


def runs(node: Node) -> bool:
    """Its bridge is connected, and all its transforms run."""
    bridges = node.view().snapshot()["bridges"].values()
    return (
        not node.view().unready()
        and all(bridge["state"] == "connected" for bridge in bridges)
        and all(transform["state"] == "running" for transform in transforms(node))
    )


def failed(node: Node) -> list[str]:
    """Why transforms fail."""
    return [transform["reason"] for transform in transforms(node) if transform["state"] == "failed"]


def transforms(node: Node) -> list[dict[str, Any]]:
    routes = node.view().snapshot()["routes"].values()
    return [route["transform"] for route in routes if route["transform"] is not None]


def is_empty(node: Node) -> bool:
    status = node.view().snapshot()
    waiting = [log["waiting"] for log in status["journal"].values()] + [route["depth"] for route in status["routes"].values()]
    return not any(waiting)


def tell(what: str, message: Message, stream: Any = None) -> None:
    topic, payload = message
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = f"{len(payload)} bytes {payload[:24].hex(' ')} ..."
    print(f"{what:>4}  {topic}  {text}", file=stream, flush=True)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in names():
        print(f"usage: examples/run NAME, where NAME is one of: {', '.join(names())}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bridgehead-example-") as home:
        return 0 if asyncio.run(show(EXAMPLES / sys.argv[1], Path(home))) else 1


if __name__ == "__main__":
    sys.exit(main())
