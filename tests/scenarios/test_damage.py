"""A bit of the store has flipped while the node was down: it starts, delivers the rest, and says what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from making.damage import flip_bit
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.stream import numbers

pytestmark = pytest.mark.mosquitto

BURSTS = 60
BURST = 50
PAYLOAD = 200


def payload(number: int) -> bytes:
    return b"%0*d" % (PAYLOAD, number)


def place_of_one_copy(log: Path) -> int:
    """Where a message stands that was not merged into a larger batch since: of those there are two, and one would do."""
    content = log.read_bytes()
    not_the_last = BURST * (BURSTS - 2)  # a later write says that this one was synced
    return next(content.find(payload(n)) for n in range(not_the_last, 0, -1) if content.count(payload(n)) == 1)


def test_a_node_starts_from_a_damaged_store_and_accounts_for_every_message(tmp_path: Path) -> None:
    remote = Mosquitto(tmp_path / "remote")
    document = {
        "persistence": {"mode": "file-native"},
        "pipeline": {"engine": "inline"},
        "bridges": [{"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["b/#"]}]}],
    }
    node = NodeProcess(tmp_path / "node", document).launch()
    node.wait_ready()
    with Client(node.port) as here:
        for burst in range(BURSTS):
            first = burst * BURST
            here.publish_all([Message("b/1", payload(n), 1) for n in range(first, first + BURST)])
    node.kill()
    [log] = (tmp_path / "node" / "data" / "store").glob("front-*")
    flip_bit(log, place_of_one_copy(log))

    remote.start()
    with Client(remote.port) as there:
        there.subscribe("b/#")
        node.start()
        node.wait_drained()
        there.barrier()
        arrived = numbers(there, "b/1")
        status = node.status()
    storage = status["storage"]
    assert storage["mode"] == "file-native"
    assert storage["lostUnknown"] == 0
    assert storage["lostRows"] == BURSTS * BURST - len(arrived) > 0
    [set_aside] = storage["setAside"]
    assert (tmp_path / "node" / "data" / set_aside / log.name).exists()
    assert "is damaged" in node.log()

    sent = BURSTS * BURST
    assert sorted(set(arrived)) == sorted(arrived), "nothing twice"
    assert arrived == sorted(arrived), "in order"
    assert sent - BURST * 10 < len(arrived) < sent, "a bit costs little"
    assert arrived[-1] == sent - 1, "what is behind the damage is kept"
    [route] = status["routes"].values()
    lost = route["dropped"].get("damaged", 0) + route["droppedBefore"].get("damaged", 0)
    assert lost == sent - len(arrived), status
    assert route["delivered"] == len(arrived)
    node.close()
    remote.stop()
