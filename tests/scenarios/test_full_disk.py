"""The disk is full while the node runs: it ends with one clear line, and what it had acknowledged is there afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from bridgehead.errors import StartError, StorageError
from bridgehead.storage.engine import Changes
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.rows import numbered, outbox_rows
from support.client import Client, Message
from support.disk import MIB, SmallDisk
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.stream import numbers
from support.waiting import until

pytestmark = pytest.mark.mosquitto


@pytest.mark.parametrize("leave", [0, MIB], ids=["to the last byte", "but for a little"])
def test_a_node_on_a_full_disk_ends_with_one_line_and_loses_nothing_that_it_acknowledged(tmp_path: Path, leave: int) -> None:
    remote = Mosquitto(tmp_path / "remote")
    with SmallDisk(tmp_path / "disk", 96 * MIB) as disk:
        document = {
            "persistence": {"mode": "file-native", "minFree": 0},
            "dataDir": str(disk.directory / "data"),
            "pipeline": {"engine": "inline"},
            "bridges": [{"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["b/#"]}]}],
        }
        node = NodeProcess(tmp_path / "node", document).launch()
        node.wait_ready()
        acknowledged = 0
        here = Client(node.port)
        for number in range(100):
            here.publish_all([Message("b/1", b"%d" % number, 1)])
            acknowledged += 1
        disk.fill(leave)
        big = Random(1).randbytes(100_000)  # which nothing squeezes
        for number in range(60):
            here.paho.publish("big", big, 1)  # matches no route
            here.paho.publish("b/large", b"%d" % number + big, 1)
        until(lambda: node.ended, "the node ends", detail=node.log)
        here.close()
        assert node.exit_code == 1
        failed, last = node.log().strip().splitlines()[-2:]
        assert last.startswith("bridgehead: storage failed:"), node.log()
        assert "storage failed, nothing is acknowledged from now on" in failed, "it ends in that moment, and does nothing more"
        assert "Traceback" not in node.log()
        disk.free()
        remote.start()
        with Client(remote.port) as there:
            there.subscribe("b/1")
            node.start()
            node.wait_drained()
            there.barrier()
            assert numbers(there, "b/1") == list(range(acknowledged))
        node.close()
        remote.stop()


def test_a_store_on_a_disk_without_room_to_open_it_says_so_and_is_whole_when_there_is(tmp_path: Path) -> None:
    """By a few bytes more or less it fails at another moment each time: making the first file, replaying the log, closing."""
    shelf, batches = ("outbox", "r"), 200
    before = tmp_path / "before"
    engine = RocksEngine(before, sync=False)
    for number in range(batches):
        engine.write(Changes(puts=[(shelf, 100 * number, outbox_rows(*numbered(100 * number, 100)))]))
    with SmallDisk(tmp_path / "disk", 64 * MIB) as disk:
        refused: list[str] = []
        for leave in range(0, 320 << 10, 20 << 10):
            store = disk.directory / f"store-{leave}"
            copy_as_left(before, store)
            disk.fill(leave)
            try:
                RocksEngine(store, sync=False).close()
            except (StartError, StorageError) as error:
                refused.append(str(error))
            disk.free()
            again = RocksEngine(store, sync=False)
            assert len(list(again.numbers(shelf))) == batches, leave
            again.close()
            shutil.rmtree(store)
        assert refused
        assert all("No space left on device" in why for why in refused), refused
    engine.close()
