"""Many clients that change many bridges at once: the end is consistent, nothing hangs, nothing dangles at the remote."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

API = "/api/v1/management/bridges"
CLIENTS, BRIDGES, CALLS = 8, 20, 30
STOPS_WITHIN = 35.0


def test_twenty_bridges_that_eight_clients_change_at_once_are_in_the_end_what_was_said_last(
    tmp_path: Path, remote: Mosquitto
) -> None:
    node = NodeProcess(tmp_path / "node", {"pipeline": {"engine": "inline"}}).launch()
    node.wait_ready()
    names = [f"n{number}" for number in range(BRIDGES)]

    def bridge(name: str, keep_alive: int) -> dict[str, Any]:
        # Two of each four have one client id between them: they take turns at the remote, and nobody hangs for that.
        client = f"{node.console_port}-{'twin' if name in ('n0', 'n1') else name}"
        rules = [{"filters": [f"{name}/#"]}]
        return {
            "id": name,
            "clientId": client,
            "host": "127.0.0.1",
            "port": remote.port,
            "keepAlive": keep_alive,
            "localSubscriptions": rules,
            "remoteSubscriptions": [{"filters": [f"down/{name}/#"]}],
        }

    def client(seed: int) -> tuple[set[int], float]:
        dice, codes, slowest = random.Random(seed), set(), 0.0
        for _ in range(CALLS):
            name = dice.choice(names)
            began = time.monotonic()
            what = dice.randrange(6)
            if what == 0:
                code, _ = node.ask("POST", API, bridge(name, 60))
            elif what == 1:
                code, _ = node.ask("PUT", f"{API}/{name}", bridge(name, dice.randrange(20, 60)))
            elif what == 2:
                code, _ = node.ask("DELETE", f"{API}/{name}" + dice.choice(["", "?purge=true"]))
            else:
                command = ("START", "STOP", "RESTART")[what - 3]
                code, _ = node.ask("PUT", f"{API}/{name}/status", {"command": command})
            codes.add(code)
            slowest = max(slowest, time.monotonic() - began)
        return codes, slowest

    for name in names[::2]:
        assert node.ask("POST", API, bridge(name, 60)) == (200, None)
    with ThreadPoolExecutor(CLIENTS) as pool:
        told = list(pool.map(client, range(CLIENTS)))
    assert {code for codes, _ in told for code in codes} <= {200, 400, 404}
    assert max(slowest for _, slowest in told) < STOPS_WITHIN

    def connections() -> int:
        found = psutil.Process(node.pid).net_connections("tcp")
        return sum(each.status == psutil.CONN_ESTABLISHED and each.raddr and each.raddr.port == remote.port for each in found)

    # What is shown is what is: as many connections as bridges run, and each of these carries messages, both ways.
    for twin in ("n0", "n1"):
        node.ask("DELETE", f"{API}/{twin}")
    shown = {each["id"]: each["runtime"] for each in node.get(f"{API}/status")[1]["items"]}
    assert set(shown) == set(node.status()["bridges"])
    running = [name for name, runtime in shown.items() if runtime == "STARTED"]
    until(lambda: all(node.bridge(name)["state"] == "connected" for name in running), "all are connected", detail=node.log)
    assert connections() == len(running)
    with Client(remote.port) as there, Client(node.port) as here:
        for name in running:
            there.subscribe(f"{name}/#")
            here.subscribe(f"down/{name}/#")
        until(lambda: all(node.bridge(name)["subscribed"] for name in running), "all are subscribed")
        here.publish_all(Message(f"{name}/up", b"1", qos=1) for name in running)
        there.publish_all(Message(f"down/{name}/x", b"1", qos=1) for name in running)
        there.wait_until(lambda _: all(there.came[f"{name}/up"] == 1 for name in running), "all have sent")
        here.wait_until(lambda _: all(here.came[f"down/{name}/x"] == 1 for name in running), "all have fetched")
    for name in shown:
        assert node.ask("DELETE", f"{API}/{name}?purge=true") == (200, None)
    until(lambda: connections() == 0, "nothing dangles at the remote")
    assert node.get("/api/v1/audit")[1]["faults"] == []
    node.stop()
