"""Archives of a node as a user runs it: between paho and mosquitto, through a real Spark, read back by others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from subprocess import run
from typing import Any

import pytest

from spark.lake import Lake
from spark.session import light
from support.client import Client, Message
from support.disk import MIB, SmallDisk
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

COLUMNS = (
    "SELECT topic, payload, qos, received_at, journal_offset, cast(cast(payload as string) as int) * 2 AS doubled, "
    "array(qos, 7) AS odd FROM messages WHERE cast(cast(payload as string) as int) % 2 = 0"
)

READ_WITH_SPARK = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config(map=json.loads(sys.argv[2])).getOrCreate()
frame = spark.read.parquet(sys.argv[1])
rows = frame.selectExpr("cast(payload as string) as payload", "date", "topic").collect()
print(json.dumps([sorted(int(row.payload) for row in rows), sorted({str(row.date) for row in rows}), frame.columns]))
"""


def route(name: str, archive: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    return {"filters": [f"{name}/#"], "archive": {"path": f"lake/{name}", **(archive or {})}, **settings}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path_factory.mktemp("node") / "lake" / "full", 8 * MIB) as disk:
        yield disk


@pytest.fixture(scope="module")
def node(remote: Mosquitto, disk: SmallDisk) -> Iterator[NodeProcess]:
    """One node with a route for each kind of archive, and one whose disk can be filled."""
    directory = disk.directory.parents[1]
    bridge = {
        "id": "_b",  # a name that readers of directories would pass over
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": [
            route("plain"),
            route("made", transform={"sql": COLUMNS}),
            route("split", {"partitionBy": ["bridge", "route", "topicLevel2", "date"]}),
            route("json", {"format": "json"}),
            route("full"),
            route("jar", {"format": "delta"}),
            route("csv", {"format": "csv"}),
        ],
        "remoteSubscriptions": [route("pull", destination="pulled/{#}")],
    }
    node = NodeProcess(directory, {"bridges": [bridge]}).start()
    yield node
    node.stop()


def lake(node: NodeProcess, name: str) -> Lake:
    return Lake(node.directory / "lake" / name)


def publish(node: NodeProcess, *messages: Message) -> None:
    with Client(node.port) as here:
        here.publish_all(messages)


def numbered(topic: str, count: int, qos: int = 1) -> list[Message]:
    return [Message(topic, b"%d" % number, qos) for number in range(count)]


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def test_every_row_of_a_route_is_in_its_archive_once_and_reaches_the_remote(node: NodeProcess, remote: Mosquitto) -> None:
    before = today()
    with Client(remote.port) as there:
        there.subscribe("plain/#")
        publish(node, *(Message("plain/a", b"%d" % number, number % 3) for number in range(600)))
        there.wait_for(600)
    archive = lake(node, "plain")
    assert archive.wait_for(600) == list(range(600))
    row = archive.table().to_pylist()[0]
    assert (row["topic"], row["bridge"], row["node"]) == ("plain/a", "_b", "edge")
    assert set(row) == {
        "topic", "payload", "qos", "retain", "received_at", "client_id", "route", "bridge", "message_expiry",
        "payload_format", "content_type", "response_topic", "correlation_data", "user_properties", "node",
        "journal_partition", "journal_offset", "date",
    }  # fmt: skip
    assert {path.parent.name for path in archive.files()} <= {f"date={before}", f"date={today()}"}
    until(lambda: not archive.pending(), "nothing is left pending")


def test_spark_reads_the_same(node: NodeProcess) -> None:
    """After the test above."""
    command = [sys.executable, "-c", READ_WITH_SPARK, str(node.directory / "lake" / "plain"), json.dumps(light())]
    done = run(command, check=True, capture_output=True, text=True)
    found, days, columns = json.loads(done.stdout.splitlines()[-1])
    assert found == list(range(600))
    assert today() in days
    assert columns[-1] == "date"


def test_what_a_transform_returns_is_archived_with_all_its_columns(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there:
        there.subscribe("made/#")
        publish(node, *numbered("made/a", 100))
        there.wait_for(50)
    archive = lake(node, "made")
    assert archive.wait_for(50) == list(range(0, 100, 2))
    rows = archive.table().to_pylist()
    assert all(row["doubled"] == 2 * int(row["payload"]) and row["odd"] == [1, 7] for row in rows)
    assert "client_id" not in rows[0]


def test_directories_are_those_of_the_partition_columns(node: NodeProcess) -> None:
    publish(node, *(Message(topic, b"1", 1) for topic in ("split/a=b", "split", "split/ü/x")))
    archive = lake(node, "split")
    archive.wait_for(3)
    name = next(each for each, its in node.status()["routes"].items() if its["filters"] == ["split/#"])
    found = {str(path.parent.relative_to(archive.path)) for path in archive.files()}
    start = f"bridge=_b/route={name}/topicLevel2="
    assert found == {f"{start}{value}/date={today()}" for value in ("a%3Db", "__HIVE_DEFAULT_PARTITION__", "ü")}
    assert {row["topicLevel2"] for row in archive.table().to_pylist()} == {"a=b", None, "ü"}


def test_what_is_pulled_is_archived_before_the_rules(node: NodeProcess, remote: Mosquitto) -> None:
    with Client(remote.port) as there, Client(node.port) as here:
        here.subscribe("pulled/#")
        there.publish_all(numbered("pull/a", 50, qos=2))
        here.wait_for(50)
    archive = lake(node, "pull")
    assert archive.wait_for(50) == list(range(50))
    assert {row["topic"] for row in archive.table().to_pylist()} == {"pull/a"}


def test_another_format_is_written_by_sparks_own_writer(node: NodeProcess) -> None:
    publish(node, *numbered("json/a", 20))
    path = node.directory / "lake" / "json"

    def lines() -> list[str]:
        return [line for file in path.glob("date=*/*.json") for line in file.read_text().splitlines()]

    until(lambda: len(lines()) >= 20, "20 rows are there", detail=lambda: (node.status()["routes"], node.log()))
    assert len(lines()) == 20


def degraded(node: NodeProcess, reason: str) -> None:
    """Wait until the readiness says so."""

    def says_so() -> bool:
        return any(reason in each for each in node.get("/api/v1/health/readiness")[1]["degraded"])

    until(says_so, f"the readiness says {reason}", detail=lambda: (node.get("/api/v1/health/readiness"), node.log()))
    assert node.readiness()[0] == 200


def test_a_full_disk_is_said_and_costs_nothing(node: NodeProcess, disk: SmallDisk) -> None:
    archive = lake(node, "full")
    publish(node, *numbered("full/a", 10))
    archive.wait_for(10)
    disk.fill()
    publish(node, *(Message("full/a", b"%d" % number, 1) for number in range(10, 500)))
    degraded(node, "cannot be written: [Errno 28] No space left on device")
    disk.free()
    assert archive.wait_for(500) == list(range(500))
    until(lambda: not archive.pending(), "nothing is left pending")


@pytest.mark.parametrize(("name", "reason"), [("jar", "Spark has no format delta here"), ("csv", "csv cannot hold these rows")])
def test_a_format_that_cannot_be_used_is_degraded_with_the_reason_and_its_rows_wait(
    node: NodeProcess, name: str, reason: str
) -> None:
    publish(node, *numbered(f"{name}/a", 10))
    degraded(node, reason)
    [its] = [each for each in node.status()["routes"].values() if each["filters"] == [f"{name}/#"]]
    assert (its["waiting"], its["entered"]) == (10, 0)
    assert its["archive"]["state"] == "failed"
    assert reason in its["archive"]["reason"]
    assert its["transform"] is None
