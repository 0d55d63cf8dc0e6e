"""Transforms on a node as a user runs it: between paho and mosquitto, through a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

MODULE = '''
from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def loud(messages: DataFrame, least: int, sign: str = "!") -> DataFrame:
    value = f.expr("try_cast(try_cast(payload as string) as int)")
    return messages.where(value >= least).withColumn("payload", f.concat(f.col("payload").cast("string"), f.lit(sign)))


def broken(messages: DataFrame) -> DataFrame:
    return messages.withColumn("payload", f.expr("cast(1 / (cast(cast(payload as string) as int) - 3) as string)"))
'''

TWICE = """
-- each message twice, the second one on another topic
SELECT concat(topic, suffix) AS topic, payload, qos, user_properties, message_expiry, journal_offset
FROM messages LATERAL VIEW explode(array('/one', '/two')) AS suffix
"""


START = 300.0
"""Seconds for a Spark and a query for each transform."""


def is_starting(node: NodeProcess) -> bool:
    return any((each["transform"] or {}).get("state") == "starting" for each in node.status()["routes"].values())


def route(name: str, **settings: Any) -> dict[str, Any]:
    return {"filters": [f"{name}/#"], **settings}


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node with a route for each kind of transform, and a route without one."""
    directory = tmp_path_factory.mktemp("node")
    (directory / "plant.py").write_text(MODULE)
    (directory / "sql").mkdir()
    (directory / "sql" / "twice.sql").write_text(TWICE)
    bridge = {
        "id": "b",
        "host": "127.0.0.1",
        "port": remote.port,
        "messageIdProperty": "id",
        "localSubscriptions": [
            route("plain"),
            route("same", transform={"sql": "SELECT * FROM messages"}),
            route("some", transform={"sql": "SELECT * FROM messages WHERE qos > :floor", "options": {"floor": 0}}),
            route("twice", transform={"sqlFile": "sql/twice.sql"}, destination="made/{#}"),
            route("loud", transform={"python": "plant:loud", "options": {"least": 5}}),
            route("broken", transform={"python": "plant:broken"}),
            route("few", transform={"sql": "SELECT 'few/out' AS topic, payload FROM messages"}),
        ],
        "remoteSubscriptions": [route("pull", transform={"sql": "SELECT upper(topic) AS topic, payload, qos FROM messages"})],
    }
    node = NodeProcess(directory, {"bridges": [bridge]}).launch()
    node.wait_ready(within=START)
    node.wait_connected()
    until(lambda: not is_starting(node), "every transform has started", START, lambda: node.status()["routes"])
    yield node
    node.stop()


def crossed(node: NodeProcess, remote: Mosquitto, sent: list[Message], expect: int, listen: str = "#") -> list[Message]:
    """What comes to the remote when these are published here."""
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe(listen, retainHandling=2)
        here.publish_all(sent)
        arrived = there.wait_for(expect)
        node.wait_drained()
    return list(arrived)


def numbers(topic: str, count: int, qos: int = 1, **properties: Any) -> list[Message]:
    return [Message(topic, b"%d" % i, qos=qos, properties=properties) for i in range(count)]


def test_a_transform_that_changes_nothing_hands_on_every_message_once_in_order(node: NodeProcess, remote: Mosquitto) -> None:
    sent = numbers("same/a", 500, UserProperty=[("k", "v")], ContentType="text/plain")
    arrived = crossed(node, remote, sent, 500, "same/#")
    assert [message.payload for message in arrived] == [message.payload for message in sent]
    assert {message.topic for message in arrived} == {"same/a"}
    for message in arrived:
        assert message.properties["ContentType"] == "text/plain"
        assert [key for key, _ in message.properties["UserProperty"]] == ["k", "hmq-bridge-hop-count", "id"]


def test_sql_with_a_named_option_drops_what_it_does_not_select(node: NodeProcess, remote: Mosquitto) -> None:
    sent = [Message("some/a", b"%d" % i, qos=i % 2) for i in range(100)]
    arrived = crossed(node, remote, sent, 50, "some/#")
    assert [int(message.payload) for message in arrived] == list(range(1, 100, 2))


def test_sql_from_a_file_beside_the_configuration_makes_more_rows_each_with_its_own_id(
    node: NodeProcess, remote: Mosquitto
) -> None:
    arrived = crossed(node, remote, numbers("twice/a", 50, MessageExpiryInterval=600), 100, "made/#")
    assert [message.payload for message in arrived] == [b"%d" % (i // 2) for i in range(100)]
    assert [message.topic for message in arrived] == ["made/twice/a/one", "made/twice/a/two"] * 50
    ids = [dict(message.properties["UserProperty"])["id"] for message in arrived]
    assert len(set(ids)) == 100
    assert all(0 < message.properties["MessageExpiryInterval"] <= 600 for message in arrived)


def test_a_python_function_gets_its_options_and_the_table(node: NodeProcess, remote: Mosquitto) -> None:
    arrived = crossed(node, remote, numbers("loud/a", 10), 5, "loud/#")
    assert [message.payload for message in arrived] == [b"%d!" % i for i in range(5, 10)]


def test_columns_that_are_left_out_take_their_defaults(node: NodeProcess, remote: Mosquitto) -> None:
    [message] = crossed(node, remote, numbers("few/a", 1, qos=2), 1, "few/#")
    assert (message.topic, message.qos, message.retain) == ("few/out", 1, False)
    assert dict(message.properties["UserProperty"])["hmq-bridge-hop-count"] == "1"


def test_what_is_pulled_is_transformed_too(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        here.subscribe("PULL/#")
        there.publish_all(numbers("pull/a", 20, qos=2))
        arrived = here.wait_for(20)
        node.wait_drained()
    assert [message.payload for message in arrived] == [b"%d" % i for i in range(20)]
    assert {(message.topic, message.qos) for message in arrived} == {("PULL/A", 2)}


def test_status_and_audit_account_for_rows_in_and_out(node: NodeProcess, remote: Mosquitto) -> None:
    """After the tests above."""
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("plain/#")
        here.publish_all(numbers("plain/a", 10))
        there.wait_for(10)
        node.wait_drained()
    status = node.status()
    some = next(each for each in status["routes"].values() if each["filters"] == ["some/#"])
    assert some["transform"] == {"state": "running", "reason": None, "nextAttemptIn": None}
    assert (some["consumed"], some["entered"], some["transformed"]) == (100, 50, {"in": 100, "out": 50})
    code, account = node.get("/api/v1/audit")
    assert (code, account["faults"]) == (200, []), json.dumps(account)


@pytest.mark.parametrize("victim", ["worker", "source_reader", "driver"])
def test_a_kill_in_mid_flow_costs_a_transform_no_message_and_doubles_none(
    node: NodeProcess, remote: Mosquitto, victim: str
) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe(f"made/twice/{victim}/#")
        for i in range(60):
            here.publish_all([Message(f"twice/{victim}", b"%d" % i, qos=1)])
            if i == 30:
                getattr(node, victim)().kill()
        arrived = list(there.wait_for(120, within=START))
        node.wait_drained()
    assert [message.payload for message in arrived] == [b"%d" % (i // 2) for i in range(120)]
    assert [message.topic.rsplit("/")[-1] for message in arrived] == ["one", "two"] * 60


def in_state(node: NodeProcess, state: str) -> dict[str, Any] | None:
    """The first route whose transform is in this state."""
    return next((each for each in node.routes("b", "push") if each["transform"] and each["transform"]["state"] == state), None)


def test_a_transform_that_fails_is_told_and_retried_and_stops_nobody_else(node: NodeProcess, remote: Mosquitto) -> None:
    """The last one: its messages wait for ever."""
    with Client(remote.port) as there, Client(node.port) as here:
        there.subscribe("plain/#")
        here.publish_all(numbers("broken/a", 10))
        failing = until(lambda: in_state(node, "failed"), "the transform fails", detail=lambda: node.status()["routes"])
        here.publish_all(numbers("plain/a", 10))
        there.wait_for(10)
    assert "DIVIDE_BY_ZERO" in failing["transform"]["reason"]
    assert failing["consumed"] <= 3  # what came in a batch before the one that it fails on
    assert failing["consumed"] + failing["waiting"] == 10
    code, body = node.get("/api/v1/health/readiness")
    assert code == 200
    assert any("DIVIDE_BY_ZERO" in line for line in body["degraded"])
