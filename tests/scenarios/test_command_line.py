"""The command line as a user meets it: what it prints, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import children
from support.node import COMMAND, STOPS_WITHIN, NodeProcess, wait_gone
from support.waiting import free_port, free_ports, until

FAULTY = """\
node: "a name with spaces"
colour: blue
listeners:
  - {type: tcp, port: 70000}
  - {type: carrier-pigeon}
persistence: {mode: on-paper}
pipeline: {engine: steam}
bridges:
  - id: one
    host: example.com
    keepAlive: -1
    localSubscriptions:
      - {filters: ["a/#/b"], maxQoS: 3}
  - id: one
    remoteSubscriptions:
      - {filters: []}
"""
PLACES = (
    "node",
    "colour",
    "listeners[0].port",
    "listeners[1].type",
    "persistence.mode",
    "pipeline.engine",
    "bridges[0].keepAlive",
    "bridges[0].localSubscriptions[0].filters[0]",
    "bridges[0].localSubscriptions[0].maxQoS",
    "bridges[1].id",
    "bridges[1].host",
    "bridges[1].remoteSubscriptions[0].filters",
)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)


def write(path: Path, document: dict[str, Any] | str) -> str:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize("name", ["check", "run"])
def test_a_file_with_faults_is_refused_with_every_fault_at_its_place(tmp_path: Path, name: str) -> None:
    result = command(name, "-c", write(tmp_path / "faulty.yaml", FAULTY))
    assert result.returncode == 2
    told = result.stdout if name == "check" else result.stderr  # a check was asked for them, a run was not
    lines = told.splitlines()
    for place in PLACES:
        assert any(line.startswith(place) for line in lines), f"{place} is missing in\n{told}"
    assert f"{len(lines) - 1} faults" in lines[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("text", ["bridges: [", "- a list", ": :\n\t", "a: 1\na: 2\n"])
def test_a_file_that_is_no_configuration_is_refused_without_a_traceback(tmp_path: Path, text: str) -> None:
    result = command("check", "-c", write(tmp_path / "broken.yaml", text))
    assert result.returncode == 2
    assert result.stdout
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there_is_refused_without_a_traceback(tmp_path: Path) -> None:
    result = command("check", "-c", str(tmp_path / "nowhere.yaml"))
    assert result.returncode == 2
    assert "nowhere.yaml" in result.stdout
    assert "Traceback" not in result.stderr


def test_a_good_file_is_called_good(tmp_path: Path) -> None:
    bridge = {"id": "cloud", "host": "example.com", "localSubscriptions": [{"filters": ["factory/#"]}]}
    result = command("check", "-c", write(tmp_path / "good.yaml", {"node": "plant-7", "bridges": [bridge]}))
    assert (result.returncode, result.stderr) == (0, "")
    assert "good" in result.stdout


def test_the_package_is_a_command_as_well() -> None:
    asked = [sys.executable, "-m", "bridgehead", "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    assert "check" in done.stdout


def test_check_and_run_say_that_a_bridge_lowers_the_qos(tmp_path: Path) -> None:
    bridge = {"id": "b", "host": "127.0.0.1", "port": free_port(), "persist": False, "localSubscriptions": [{"filters": ["a"]}]}
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}, "bridges": [bridge]})
    said = "bridges[0].persist: bridge b lowers QoS 1 and 2 to QoS 0"
    result = command("check", "-c", str(node.file))
    assert result.returncode == 0
    assert result.stdout.count(f"warning: {said}") == 1
    node.launch()
    node.stop()
    assert [line.count("WARNING") for line in node.log().splitlines() if said in line] == [1]


@pytest.mark.parametrize("taken", ["listener", "console"])
def test_a_taken_port_is_one_clear_line(tmp_path: Path, taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        ports = {"listener": free_port(), "console": free_port(), taken: holder.getsockname()[1]}
        document = {
            "dataDir": str(tmp_path / "data"),
            "listeners": [{"type": "tcp", "port": ports["listener"]}],
            "console": {"port": ports["console"]},
        }
        result = command("run", "-c", write(tmp_path / "node.yaml", document))
        assert result.returncode == 1
        assert [line for line in result.stderr.splitlines() if "INFO" not in line] == [
            f"bridgehead: {'the console ' if taken == 'console' else ''}cannot listen on 127.0.0.1:{ports[taken]}:"
            " Address already in use"
        ]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_node_cleanly(tmp_path: Path, by: signal.Signals) -> None:
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}}).start()
    node.stop(by)
    assert "Traceback" not in node.log()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("what", ["run", "pipeline"])
def test_a_signal_before_there_is_anything_to_stop_is_a_clean_stop_too(tmp_path: Path, what: str, by: signal.Signals) -> None:
    file = tmp_path / "node.yaml"
    os.mkfifo(file)
    process = children.start([COMMAND, what, "-c", str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with file.open("w"):  # it reads its configuration now, and waits for more of it
        process.send_signal(by)
        said, _ = process.communicate(timeout=STOPS_WITHIN)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.spark
def test_a_signal_while_spark_starts_stops_the_node_cleanly_and_leaves_no_orphan(tmp_path: Path) -> None:
    bridge = {"id": "b", "host": "127.0.0.1", "port": free_port(), "localSubscriptions": [{"filters": ["a"]}]}
    node = NodeProcess(tmp_path, {"bridges": [bridge]}).launch()
    family = [node.driver(), node.jvm()]
    node.stop(signal.SIGINT)
    wait_gone(family)
    assert "Traceback" not in node.log()


@pytest.mark.spark
def test_a_pipeline_that_cannot_start_is_not_ready_says_why_and_is_tried_again(tmp_path: Path) -> None:
    bridge = {"id": "b", "host": "127.0.0.1", "port": free_port(), "localSubscriptions": [{"filters": ["a"]}]}
    document = {"pipeline": {"conf": {"spark.driver.memory": "a lot"}}, "bridges": [bridge]}
    node = NodeProcess(tmp_path, document).launch()

    def complaint() -> list[str]:
        code, reasons = node.readiness()
        assert code == 503
        return [reason for reason in reasons if "JVM ended" in reason]

    assert until(complaint, "the reason is told", detail=node.log)
    until(lambda: node.status()["pipeline"]["starts"] >= 3, "it is tried again and again", detail=node.log)
    assert node.get("/api/v1/health/liveness")[0] == 200
    assert not node.status()["ready"]
    node.stop()


def test_an_unknown_host_is_tried_again_with_growing_pauses_and_shown(tmp_path: Path) -> None:
    bridge = {"id": "b", "host": "no-such-host.invalid", "localSubscriptions": [{"filters": ["a"]}]}
    node = NodeProcess(tmp_path, {"pipeline": {"engine": "inline"}, "bridges": [bridge]}).launch()
    node.wait_ready()

    def pause(above: float) -> bool:
        status = node.bridge("b")
        return status["state"] == "disconnected" and (status["nextAttemptIn"] or 0) > above

    for seconds in (0.5, 1.5, 3.5):  # the pauses are 1, 2 and 4 seconds and up to a quarter more
        until(lambda least=seconds: pause(least), f"a pause above {seconds} s")
    status = node.bridge("b")
    assert "no-such-host.invalid" in status["lastError"]
    assert status["connects"] == 0
    node.stop()


def test_the_demo_ends_by_itself_when_its_messages_have_crossed() -> None:
    plant, cloud, console = (str(port) for port in free_ports(3))
    result = command(
        "demo", "--messages", "50", "--engine", "inline",
        "--plant-port", plant, "--cloud-port", cloud, "--console-port", console,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    arrived = next(line for line in reversed(result.stdout.splitlines()) if "arrived" in line)
    assert arrived.split().count("50") == 2


def test_the_demo_says_in_one_line_that_a_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = str(holder.getsockname()[1])
        result = command("demo", "--messages", "1", "--engine", "inline", "--cloud-port", taken)
    assert result.returncode == 1
    assert result.stderr.strip() == f"bridgehead: cannot listen on 127.0.0.1:{taken}: Address already in use"
