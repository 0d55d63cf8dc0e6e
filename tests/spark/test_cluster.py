"""Two nodes, one pipeline elsewhere, a standalone cluster of two workers: all on loopback, all real."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from making.certificates import Authority
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.pipeline import PipelineProcess
from support.sparkcluster import EXECUTOR_CONF, SparkCluster
from support.stream import Stream, numbers
from support.waiting import free_port, free_ports, until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

MAKING = {"filters": ["raw/#"], "transform": {"sql": "SELECT concat(topic, '/', node) AS topic, payload, qos FROM messages"}}
TOKEN = "a-token-that-both-sides-know"
START = 180.0


@dataclass
class Site:
    """Everything that runs."""

    directory: Path
    remote: Mosquitto
    nodes: dict[str, NodeProcess]
    document: dict[str, Any]  # of the pipeline
    cluster: SparkCluster
    pipeline: PipelineProcess

    def log(self) -> str:
        return self.pipeline.log() + "".join(node.log() for node in self.nodes.values())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    plain, secured = free_ports(2)
    authority = Authority(directory)
    cert, key = authority.vouch("plant-8", "127.0.0.1")
    flights: dict[str, dict[str, Any]] = {
        "plant-7": {"port": plain, "token": TOKEN},
        "plant-8": {"port": secured, "token": TOKEN, "tls": {"certFile": str(cert), "keyFile": str(key)}},
    }
    nodes = [
        {"address": f"127.0.0.1:{plain}", "token": "${ENV:TOKEN}"},
        {"address": f"127.0.0.1:{secured}", "token": "${ENV:TOKEN}", "caFile": str(authority.cert)},
    ]
    with ExitStack() as stack:
        remote = Mosquitto(directory / "remote").start()
        stack.callback(remote.stop)
        started: dict[str, NodeProcess] = {}
        for name, flight in flights.items():
            document = {"node": name, "pipeline": {"external": True, "flight": flight}, "bridges": [bridge(name, remote)]}
            started[name] = NodeProcess(directory / name, document).launch()
            stack.callback(started[name].close)
        cluster = SparkCluster(directory / "cluster")
        stack.callback(cluster.close)
        pipeline = {"pipeline": {"master": cluster.master, "conf": EXECUTOR_CONF, "nodes": nodes}}
        for name, node in started.items():
            assert node.readiness() == (503, ["pipeline is waiting: no pipeline holds the lease of this node"]), name
        running = PipelineProcess(directory / "pipeline", pipeline, {"TOKEN": TOKEN})
        stack.callback(running.close)
        site = Site(directory, remote, started, pipeline, cluster, running)
        for node in started.values():
            until(lambda node=node: node.readiness()[0] == 200, "the node is ready", START, site.log)
            node.wait_connected()
        yield site


def bridge(name: str, remote: Mosquitto) -> dict[str, Any]:
    making = [MAKING] if name == "plant-8" else []
    return {
        "id": "cloud",
        "clientId": name,
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": [{"filters": ["out/#"], "destination": f"{name}/{{#}}"}, *making],
    }


def assert_once_in_order(came: list[int], sent: list[int], topic: str) -> None:
    missing, doubled = sorted(set(sent) - set(came)), len(came) - len(set(came))
    assert came == sent, f"{topic}: of {len(sent)} {len(missing)} are missing, from {missing[:1]}; {doubled} doubled"


def test_a_worker_killed_in_mid_flow_costs_and_doubles_no_message(site: Site) -> None:
    with ExitStack() as stack:
        receiver = stack.enter_context(Client(site.remote.port))
        streams: list[tuple[Stream, str]] = []
        for name, node in site.nodes.items():
            receiver.subscribe(f"{name}/#")
            for qos in (1, 2):
                source = stack.enter_context(Client(node.port))
                streams.append((Stream(source, f"out/{qos}", qos), f"{name}/out/{qos}"))

        def all_past(marks: list[int]) -> bool:
            return all(len(numbers(receiver, topic)) > mark for (_, topic), mark in zip(streams, marks, strict=True))

        until(lambda: all_past([50] * 4), "messages of both nodes flow", detail=site.log)
        assert site.cluster.executors(0)
        site.cluster.kill_worker(0)
        marks = [stream.sent for stream, _ in streams]
        until(lambda: all_past(marks), "messages published after the kill flow", detail=site.log)
        expected = {topic: list(range(stream.stop())) for stream, topic in streams}
        for node in site.nodes.values():
            node.wait_drained()
        receiver.barrier()
        for topic, sent in expected.items():
            assert_once_in_order(numbers(receiver, topic), sent, topic)


def test_the_transform_of_a_node_runs_on_the_cluster_of_its_pipeline(site: Site) -> None:
    with Client(site.remote.port) as receiver, Client(site.nodes["plant-8"].port) as device:
        receiver.subscribe("raw/#")
        device.publish_all([Message("raw/a", b"%d" % number, 2) for number in range(100)])
        receiver.wait_for(100, START)
        receiver.barrier()
        assert numbers(receiver, "raw/a/plant-8") == list(range(100))


def test_a_node_that_is_away_costs_the_others_nothing_and_comes_back(site: Site) -> None:
    away, here = site.nodes["plant-7"], site.nodes["plant-8"]
    with Client(site.remote.port) as receiver:
        for name in site.nodes:
            receiver.subscribe(f"{name}/#")
        away.kill()
        with Client(here.port) as device:
            device.publish_all([Message("out/while-away", b"%d" % number, 2) for number in range(100)])
        receiver.wait_for(100)
        assert numbers(receiver, "plant-8/out/while-away") == list(range(100))
        away.launch()
        until(lambda: away.readiness()[0] == 200, "the node is ready again", START, site.log)
        away.wait_connected()
        with Client(away.port) as device:
            device.publish_all([Message("out/again", b"%d" % number, 2) for number in range(100)])
        receiver.wait_for(200)
        receiver.barrier()
        assert numbers(receiver, "plant-7/out/again") == list(range(100))


def test_a_second_pipeline_waits_and_takes_over_from_one_that_is_killed(site: Site) -> None:
    """On this machine and not on the cluster: where Spark computes is each pipeline's own business."""
    pages = {"spark.ui.enabled": True, "spark.ui.port": free_port()}
    document = {"pipeline": {**site.document["pipeline"], "master": "local[2]", "conf": pages}}
    second = PipelineProcess(site.directory / "second", document, {"TOKEN": TOKEN})
    try:
        second.says("holds the lease of node", times=2)
        node = site.nodes["plant-8"]
        holder = node.status()["pipeline"]["holder"]
        assert holder in second.own_log()
        site.pipeline.kill()
        with Client(site.remote.port) as receiver, Client(node.port) as device:
            receiver.subscribe("plant-8/#")
            device.publish_all([Message("out/meanwhile", b"%d" % number, 2) for number in range(100)])
            receiver.wait_for(100, START)
            receiver.barrier()
            assert numbers(receiver, "plant-8/out/meanwhile") == list(range(100))
        assert node.status()["pipeline"]["holder"] not in (None, holder)
        for each in site.nodes.values():
            until(lambda node=each: node.readiness()[0] == 200, "the node is ready", START, second.log)
        with urllib.request.urlopen(f"{node.status()['pipeline']['ui']}/api/v1/applications", timeout=30) as answer:
            assert json.load(answer)[0]["name"] == "bridgehead"
        assert second.stop() < 15.0
        for each in site.nodes.values():
            code, reasons = each.readiness()
            assert code == 503
            assert "has ended" in reasons[0]
    finally:
        second.close()
