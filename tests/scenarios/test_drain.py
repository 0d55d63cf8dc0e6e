"""Drain control against a real broker: the pace of a bridge, and what is live before what has waited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

RATE = 200


@dataclass
class Site:
    node: NodeProcess
    remote: Mosquitto


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("drain")
    remote = Mosquitto(directory / "remote").start()
    common = {"host": "127.0.0.1", "port": remote.port, "rateLimit": RATE}
    routes = [{"filters": [f"paced/{each}/#"]} for each in ("a", "b")]
    bridges = [
        {"id": "paced", **common, "localSubscriptions": routes},
        {"id": "lanes", **common, "liveFirst": True, "localSubscriptions": [{"filters": ["lanes/#"]}]},
    ]
    node = NodeProcess(directory / "node", {"pipeline": {"engine": "inline"}, "bridges": bridges}).start()
    yield Site(node, remote)
    node.stop()
    remote.stop()


def test_a_bridge_keeps_its_pace_and_its_routes_share_it(site: Site) -> None:
    arrivals: list[float] = []
    with Client(site.remote.port) as cloud, Client(site.node.port) as device:
        cloud.subscribe("paced/#")
        started = time.monotonic()
        sent = [Message(f"paced/{route}", b"%d" % number, 1) for route in ("a", "b") for number in range(150)]
        device.publish_all(sent)
        for count in range(10, 301, 10):
            cloud.wait_for(count)
            arrivals.append(time.monotonic())
        assert arrivals[-1] - started >= (300 - RATE / 10 - 1) / RATE
        assert cloud.topics() == {f"paced/{route}": [b"%d" % number for number in range(150)] for route in ("a", "b")}
        early = [message.topic for message in cloud.messages[:100]]
    assert min(early.count("paced/a"), early.count("paced/b")) >= 30


def test_what_is_live_arrives_before_what_has_waited_is_over(site: Site) -> None:
    with Client(site.node.port) as device:
        site.remote.kill()
        until(lambda: site.node.bridge("lanes")["state"] != "connected", "the bridge notices")
        device.publish_all([Message("lanes/x", b"%d" % number, 1) for number in range(1000)])
        site.remote.start()
        with Client(site.remote.port) as cloud:
            cloud.subscribe("lanes/#")
            site.node.wait_connected("lanes")
            device.publish_all([Message("lanes/x", b"%d" % number, 1) for number in range(1000, 1020)])
            cloud.wait_until(lambda came: any(each.payload == b"1019" for each in came), "what is live comes")
            assert site.node.routes("lanes", "push")[0]["depth"] > 0
            site.node.wait_drained()
            came = [int(payload) for payload in cloud.topics()["lanes/x"]]
    waited, live = ([number for number in came if (number >= 1000) is lane] for lane in (False, True))
    assert live == list(range(1000, 1020))
    assert waited == sorted(waited)  # those that left before the subscription stood are not here
    assert came.index(1019) < len(came) - 100
