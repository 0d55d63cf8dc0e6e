"""maxQoS 0, 1, 2 x QoS 0, 1, 2 x persist, in both directions: every message crosses at the lowest of what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess

pytestmark = pytest.mark.mosquitto

BRIDGES = {"kept": True, "volatile": False}  # their persist
LEVELS = (0, 1, 2)


@pytest.fixture(scope="module")
def crossed(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[tuple[bytes, int]]]]:
    """What came by topic, payload and QoS, after every row was published once."""

    def rules(name: str, way: str) -> list[dict[str, Any]]:
        return [{"filters": [f"rows/{name}/{way}/{limit}/#"], "maxQoS": limit} for limit in LEVELS]

    bridges = [
        {
            "id": name,
            "clientId": f"rows-{name}",
            "host": "127.0.0.1",
            "port": remote.port,
            "persist": persist,
            "localSubscriptions": rules(name, "push"),
            "remoteSubscriptions": rules(name, "pull"),
        }
        for name, persist in BRIDGES.items()
    ]
    node = NodeProcess(tmp_path_factory.mktemp("rows"), {"pipeline": {"engine": "inline"}, "bridges": bridges}).start()
    with Client(node.port) as here, Client(remote.port) as there:
        came: dict[str, list[tuple[bytes, int]]] = {}
        for way, source, target in (("push", here, there), ("pull", there, here)):
            target.subscribe(f"rows/+/{way}/#")
            source.publish_all(
                Message(f"rows/{name}/{way}/{limit}/{qos}", b"%d" % qos, qos)
                for name in BRIDGES
                for limit in LEVELS
                for qos in LEVELS
            )
            for message in target.wait_for(len(BRIDGES) * len(LEVELS) ** 2):
                came.setdefault(message.topic, []).append((message.payload, message.qos))
            node.wait_drained()
        yield came
    node.close()


@pytest.mark.parametrize("qos", LEVELS)
@pytest.mark.parametrize("limit", LEVELS)
@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("way", ["push", "pull"])
def test_a_message_crosses_at_the_lowest_of_its_qos_the_limit_of_the_rule_and_persist(
    crossed: dict[str, list[tuple[bytes, int]]], way: str, bridge: str, limit: int, qos: int
) -> None:
    expected = min(qos, limit) if BRIDGES[bridge] else 0
    assert crossed[f"rows/{bridge}/{way}/{limit}/{qos}"] == [(b"%d" % qos, expected)]
