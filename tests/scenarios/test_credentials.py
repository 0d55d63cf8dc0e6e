"""Who the bridge is at its remote, and what it proves it with: files that are read again when they have changed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from making.certificates import Authority
from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import until

pytestmark = pytest.mark.mosquitto

Bridges = dict[str, dict[str, Any]]
NodeOf = Callable[[Bridges], NodeProcess]


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[NodeOf]:
    nodes: list[NodeProcess] = []

    def make(bridges: Bridges) -> NodeProcess:
        listed = [{"id": name, "host": "127.0.0.1", **rest} for name, rest in bridges.items()]
        document = {"pipeline": {"engine": "inline"}, "bridges": listed}
        nodes.append(NodeProcess(tmp_path / "node", document, {"CLOUD_PASSWORD": "right"}).launch())
        nodes[-1].wait_ready()
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def test_a_password_comes_from_the_file_the_environment_or_a_file_of_its_own(tmp_path: Path, node_of: NodeOf) -> None:
    users = tmp_path / "users"
    subprocess.run(["mosquitto_passwd", "-c", "-b", users, "plant", "right"], check=True, capture_output=True)
    remote = Mosquitto(tmp_path / "remote", allow_anonymous="false", password_file=users).start()
    (tmp_path / "user").write_text("plant\r\n")
    secret = tmp_path / "secret"
    secret.write_text("wrong")
    node = node_of(
        {
            "written": {"port": remote.port, "username": "plant", "password": "right"},
            "environment": {"port": remote.port, "username": "plant", "password": "${ENV:CLOUD_PASSWORD}"},
            "changing": {"port": remote.port, "usernameFile": str(tmp_path / "user"), "passwordFile": str(secret)},
            "none": {"port": remote.port},
            "gone": {"port": remote.port, "username": "plant", "passwordFile": str(tmp_path / "nowhere")},
        }
    )
    node.wait_connected("written", "environment")
    said = {name: until(lambda name=name: node.bridge(name)["lastError"], name) for name in ("changing", "none", "gone")}
    refused = "the remote broker refused the connection: not authorized (0x87)"
    assert said == {"changing": refused, "none": refused, "gone": "passwordFile cannot be read: No such file or directory"}
    secret.write_text("right\n")
    node.wait_connected("changing")
    remote.stop()


def test_a_renewed_certificate_counts_from_the_next_connection_on(tmp_path: Path, node_of: NodeOf) -> None:
    """The client's certificate is one of a stranger first; the bridge is not restarted when it is replaced."""
    ours, other = Authority(tmp_path), Authority(tmp_path, "other")
    cert, key = ours.vouch("broker", "127.0.0.1")
    secure = {"certfile": cert, "keyfile": key, "cafile": ours.cert, "require_certificate": "true"}
    remote = Mosquitto(tmp_path / "remote", doors=[{**secure, "use_identity_as_username": "true"}]).start()
    mine, my_key = tmp_path / "mine.pem", tmp_path / "mine.key"

    def take(files: tuple[Path, Path]) -> None:
        for source, target in zip(files, (mine, my_key), strict=True):
            shutil.copy(source, target)

    take(other.vouch("stranger"))
    tls = {"caFile": str(ours.cert), "certFile": str(mine), "keyFile": str(my_key)}
    push = [{"filters": ["up/#"]}]
    node = node_of({"cloud": {"port": remote.doors[0], "bridgeTls": tls, "localSubscriptions": push}})
    assert until(lambda: node.bridge("cloud")["lastError"], "it is refused").startswith("TLS: the remote does not ")
    take(ours.vouch("plant"))
    node.wait_connected()
    with Client(remote.port) as cloud, Client(node.port) as device:
        cloud.subscribe("up/#")
        device.publish_all([Message("up/1", b"1", 2)])
        assert cloud.wait_for(1)[0].payload == b"1"
    remote.stop()
