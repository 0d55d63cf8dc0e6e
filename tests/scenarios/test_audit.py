"""kill -9 under traffic, again and again: after each of them, and after the calm, every message is accounted for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

ENGINES = [pytest.param("spark", marks=pytest.mark.spark), "inline"]
KILLS = {"inline": 3, "spark": 2}  # a start of Spark takes its time
BURST = 3000


def audit(node: NodeProcess) -> tuple[int, dict[str, Any]]:
    result = subprocess.run(
        [COMMAND, "audit", "-c", str(node.file), "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    return result.returncode, json.loads(result.stdout or "{}")


def in_words(node: NodeProcess) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "audit", "-c", str(node.file)], capture_output=True, text=True, timeout=120, check=False)


def adds_up(node: NodeProcess, source: str) -> dict[str, Any]:
    code, account = audit(node)
    assert (code, account["source"], account["faults"]) == (0, source, []), node.log()
    (route,) = account["routes"].values()
    assert isinstance(route, dict)
    assert not {"damaged"} & {*route["dropped"], *route["droppedBefore"]}
    return route


@pytest.mark.parametrize("engine", ENGINES)
def test_everything_adds_up_after_kills_under_traffic(tmp_path: Path, engine: str) -> None:
    remote = Mosquitto(tmp_path / "remote").start()
    bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["t/#"]}]}
    document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": engine}, "bridges": [bridge]}
    node = NodeProcess(tmp_path / "node", document)
    with Client(remote.port) as there:
        there.subscribe("t/#")
        acknowledged = 0
        for life in range(KILLS[engine]):
            node.start()
            with Client(node.port) as here:
                sent = [
                    here.publish(Message(f"t/{n % 7}", f"{life}-{n}".encode(), qos=(1, 2, 0)[n % 3])) for n in range(BURST)
                ]
                tracked = [one for n, one in enumerate(sent) if n % 3 != 2]
                until(lambda own=tracked: sum(one.is_published() for one in own) > BURST // 3, "messages flow")
                adds_up(node, "node")
                node.kill()
                assert here.disconnected.wait(30)
                acknowledged += sum(one.is_published() for one in tracked)
            found = adds_up(node, "store")
            assert found["received"] >= acknowledged
        node.start()
        node.wait_drained()
        kept = adds_up(node, "node")
        there.barrier()
        node.stop()
        assert adds_up(node, "store") == kept
    came = [message.payload for message in there.messages if int(message.payload.split(b"-")[1]) % 3 != 2]
    assert len(set(came)) == kept["delivered"] == kept["received"] >= acknowledged
    remote.stop()


def test_where_nothing_can_be_audited_one_line_says_so(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}})
    result = in_words(node)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "nothing to audit" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    node.start()
    result = in_words(node)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("everything adds up\n")
    node.stop()


def test_the_store_of_a_running_node_that_is_asked_at_a_wrong_port_is_refused_in_one_line(tmp_path: Path) -> None:
    document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": "inline"}}
    node = NodeProcess(tmp_path / "node", document).start()
    data = tmp_path / "node" / "data"
    elsewhere = NodeProcess(tmp_path / "elsewhere", {**document, "dataDir": str(data)})
    result = in_words(elsewhere)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"bridgehead: {data / 'store'} is in use by another node\n"
    node.stop()
    result = in_words(elsewhere)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_status_is_for_people_and_a_node_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}})
    command = [COMMAND, "status", "-c", str(node.file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"bridgehead: no node answers on 127.0.0.1:{node.console_port}\n"
    node.start()
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0
    assert result.stdout.startswith("node edge: ready\nstorage in-memory\n")
    node.stop()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_message_has_one_id_however_often_it_is_sent(tmp_path: Path, engine: str) -> None:
    remote = Mosquitto(tmp_path / "remote").start()
    bridge = {"id": "b", "host": "127.0.0.1", "port": remote.port, "messageIdProperty": "id", "sessionExpiry": 0}
    bridge |= {"localSubscriptions": [{"filters": ["t/#"]}]}
    document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": engine}, "bridges": [bridge]}
    node = NodeProcess(tmp_path / "node", document)
    with Client(remote.port) as there:
        there.subscribe("t/#")
        for life in range(KILLS[engine] - 1):
            node.start()
            with Client(node.port) as here:
                sent = [here.publish(Message("t/a", f"{life}-{n}".encode(), qos=1)) for n in range(BURST)]
                until(lambda own=sent: sum(one.is_published() for one in own) > BURST // 2, "messages flow")
                until(lambda: there.messages, "they come")
                node.kill()
                assert here.disconnected.wait(30)
        node.start()
        node.wait_drained()
        there.barrier()
        node.stop()
    ids = [dict(message.properties["UserProperty"])["id"] for message in there.messages]
    by_payload = {(message.payload, one) for message, one in zip(there.messages, ids, strict=True)}
    assert len(by_payload) == len(set(ids)) == len({message.payload for message in there.messages})
    assert all(one.startswith("edge:") for one in ids)
    remote.stop()
