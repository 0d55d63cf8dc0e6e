"""A driver that is killed with everything that belongs to it loses nothing, and at QoS 2 doubles nothing."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

WITHIN = 240.0


def test_a_driver_that_is_killed_goes_on_where_it_was_and_takes_every_message_once(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "broker").start()
    done = tmp_path / "done"
    done.mkdir()
    options = {
        "url": f"mqtt://127.0.0.1:{broker.port}",
        "topics": "t/#",
        "clientId": "killed",
        "qos": "2",
        "journalDir": str(tmp_path / "journal"),
        "maxRowsPerTrigger": "100",
    }

    def start() -> psutil.Popen:
        command = [sys.executable, "-m", "spark.mqtt_driver", json.dumps(options), str(done)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # the driver is found where this test is
        with (tmp_path / "driver.log").open("a") as log:
            return psutil.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def subscribed() -> bool:
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()
        return "subscribed" in _log(tmp_path)

    def taken() -> list[int]:
        return [number for part in sorted(done.glob("*.json")) for number in json.loads(part.read_text())]

    driver = start()
    try:
        until(subscribed, "the reader subscribes", WITHIN)
        with Client(broker.port) as device:
            device.publish_all([Message("t/a", str(n).encode(), 2) for n in range(300)])
            until(lambda: len(taken()) >= 100, "the first batches are done", WITHIN)
            kill_with_children(driver)
            device.publish_all([Message("t/a", str(n).encode(), 2) for n in range(300, 600)])
            driver = start()
            until(lambda: len(taken()) >= 600, "everything is done", WITHIN, detail=lambda: len(taken()))
        assert taken() == list(range(600))
    finally:
        kill_with_children(driver)
        broker.stop()


def kill_with_children(process: psutil.Popen) -> None:
    """At once: Python, its JVM, its workers, its journal."""
    everybody = [process, *process.children(recursive=True)]
    for each in everybody:
        with suppress(psutil.NoSuchProcess):  # a worker may end by itself meanwhile
            each.kill()
    process.wait()
    psutil.wait_procs(everybody[1:], timeout=60)


def _log(directory: Path) -> str:
    log = directory / "journal" / "journal.log"
    return log.read_text() if log.exists() else ""
