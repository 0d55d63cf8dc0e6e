"""Transforms that keep a memory from batch to batch, and rows that are no messages: on a node as a user runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spark.test_transforms import START, is_starting, numbers, route
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

MODULE = '''
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor


def once(messages: DataFrame) -> DataFrame:
    return messages.dropDuplicates(["topic", "payload"])


def named(messages: DataFrame, table: str) -> DataFrame:
    devices = messages.sparkSession.read.option("header", True).csv(str(Path(__file__).parent / table))
    name = f.concat(f.lit("named/"), "name")
    return messages.join(devices, messages.topic == devices.device).select(name.alias("topic"), "payload", "journal_offset")


class Counting(StatefulProcessor):
    def init(self, handle):
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key, rows, timers):
        from pyspark.sql import Row

        count = self._count.get()[0] if self._count.exists() else 0
        for row in rows:
            count += 1
            yield Row(topic="counted/" + key[0].split("/")[-1], payload=f"{bytes(row.payload).decode()}:{count}".encode())
        self._count.update((count,))

    def close(self):
        pass


def counted(messages: DataFrame) -> DataFrame:
    return messages.groupBy("topic").transformWithState(
        statefulProcessor=Counting(), outputStructType="topic string, payload binary", outputMode="Append", timeMode="None"
    )
'''

MEANS = """
SELECT concat('means/', topic) AS topic, cast(count(*) AS string) AS payload, 2 AS qos
FROM messages WATERMARK received_at DELAY OF INTERVAL 1 SECOND
GROUP BY topic, window(received_at, '2 seconds')
"""

THIRDS = """
SELECT topic, cast(12 / (cast(cast(payload AS string) AS int) - 3) AS string) AS payload, journal_offset FROM messages
"""


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("node")
    (directory / "memory.py").write_text(MODULE)
    (directory / "devices.csv").write_text("device,name\njoin/1,pump\njoin/2,fan\n")
    bridge = {
        "id": "b",
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": [
            route("window", transform={"sql": MEANS}),
            route("once", transform={"python": "memory:once"}),
            route("join", transform={"python": "memory:named", "options": {"table": "devices.csv"}}),
            route("count", transform={"python": "memory:counted"}),
            route("third", transform={"sql": THIRDS, "onError": "dead-letter"}),
            route("topic", transform={
                "sql": "SELECT cast(payload AS string) AS topic, payload FROM messages", "onError": "dead-letter",
            }),
        ],
    }  # fmt: skip
    node = NodeProcess(directory, {"persistence": {"mode": "file-native"}, "bridges": [bridge]}).launch()
    node.wait_ready(within=START)
    node.wait_connected()
    until(lambda: not is_starting(node), "every transform has started", START, lambda: node.status()["routes"])
    yield node
    node.stop()


def found(node: NodeProcess, name: str) -> dict[str, Any]:
    return next(each for each in node.status()["routes"].values() if each["filters"] == [f"{name}/#"])


def test_a_window_over_arrivals_closes_without_another_message(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("means/#")
        here.publish_all(numbers("window/a", 30))
        there.wait_until(lambda came: sum(int(each.payload) for each in came) == 30, "all are in a window that has closed")
        node.wait_drained()
    assert found(node, "window")["consumed"] == 30


def test_duplicates_are_told_across_batches_and_order_is_kept(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("once/#")
        for _ in range(3):
            here.publish_all(numbers("once/a", 50))
            there.wait_for(50)
            node.wait_drained()
        here.publish_all([Message("once/a", b"last", qos=1)])
        arrived = there.wait_for(51)
    assert [message.payload for message in arrived] == [*(b"%d" % i for i in range(50)), b"last"]


def test_a_table_beside_the_stream_is_joined(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("named/#")
        here.publish_all([Message(f"join/{i % 3}", b"%d" % i, qos=1) for i in range(30)])
        there.wait_for(20)
        node.wait_drained()
    pump, fan = ([b"%d" % i for i in range(first, 30, 3)] for first in (1, 2))
    assert there.topics() == {"named/pump": pump, "named/fan": fan}


def test_a_state_of_the_users_own_lasts_from_batch_to_batch(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("counted/#")
        for round_ in range(1, 4):
            here.publish_all(numbers("count/a", 5))
            there.wait_for(5 * round_)
    assert sorted(int(message.payload.split(b":")[1]) for message in there.messages) == list(range(1, 16))


def test_a_message_that_the_transform_fails_on_is_a_dead_letter_and_the_others_cross_in_order(
    node: NodeProcess, remote: Mosquitto
) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("third/#")
        here.publish_all(numbers("third/a", 9))
        arrived = there.wait_for(8)
        node.wait_drained()
    assert [float(message.payload) for message in arrived] == [12 / (i - 3) for i in range(9) if i != 3]
    status = found(node, "third")
    assert status["deadLettered"] == {"transform-failed": 1}
    assert (status["consumed"], status["entered"], status["transformed"]) == (9, 9, {"in": 9, "out": 9})


def test_a_row_that_is_no_message_is_a_dead_letter_with_its_reason(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("good/#")
        here.publish_all(Message("topic/a", payload, qos=1) for payload in (b"good/1", b"bad/+", b"", b"\xff\xfe", b"good/2"))
        arrived = there.wait_for(2)
        node.wait_drained()
    assert [message.topic for message in arrived] == ["good/1", "good/2"]
    assert found(node, "topic")["deadLettered"] == {"transform-bad-topic": 3}


@pytest.mark.parametrize("victim", ["driver", "jvm", "node"])
def test_a_kill_in_mid_flow_loses_and_doubles_nothing_of_a_memory(node: NodeProcess, remote: Mosquitto, victim: str) -> None:
    """Each payload comes twice: once before the kill, and once, or both times, after it.

    At QoS 2, because at QoS 1 a node that is killed before it has read an acknowledgement sends that message again.
    """
    names, half = ("once", "window"), 20

    def publish(first: int) -> None:
        with Client(node.port) as here:
            for i in range(first, first + half):
                here.publish_all(Message(f"{name}/{victim}", b"%d" % i, qos=2) for name in names)

    with Client(remote.port) as there:
        there.subscribe(f"once/{victim}")
        there.subscribe(f"means/window/{victim}")
        publish(0)
        until(lambda: any(each.topic.startswith("once") for each in there.messages), "the memory has rows")
        if victim == "node":
            node.kill()
            node.launch()
            node.wait_ready(within=START)
        else:
            getattr(node, victim)().kill()
        publish(half // 2)
        there.wait_until(
            lambda came: sum(int(each.payload) for each in came if each.topic.startswith("means")) >= 2 * half,
            "every message is in a window that has closed",
            within=START,
        )
        node.wait_drained()
        came = there.topics()
    assert came[f"once/{victim}"] == [b"%d" % i for i in range(half + half // 2)]
    assert sum(int(count) for count in came[f"means/window/{victim}"]) == 2 * half
    code, account = node.get("/api/v1/audit")
    assert (code, account["faults"]) == (200, [])
