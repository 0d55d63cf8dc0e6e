"""The ways to a remote: TLS, mutual TLS, WebSocket, both, and through a proxy; and each way that does not work says why."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from making.certificates import Authority
from support.client import Client, Message
from support.httpproxy import HttpProxy
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import free_port, until

pytestmark = pytest.mark.mosquitto

SECRET = "a secret"
GOOD = ("tls", "tls12", "mutual", "pkcs12", "any-name", "ws", "wss", "proxy", "wss-proxy")


@dataclass
class Site:
    node: NodeProcess
    remote: Mosquitto
    proxy: HttpProxy


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One mosquitto with a door for each case, one node with a bridge for each case."""
    directory = tmp_path_factory.mktemp("ways")
    ours, other = Authority(directory), Authority(directory, "other")
    cert, key = ours.vouch("broker", "127.0.0.1")
    remote = Mosquitto(directory / "mosquitto", doors=doors(ours, cert, key)).start()
    silent = socket.create_server(("127.0.0.1", free_port()))
    with HttpProxy("user", SECRET) as proxy, silent:
        node = NodeProcess(directory / "node", document(remote, ours, other, proxy, silent.getsockname()[1]))
        node.launch()
        node.wait_ready()
        yield Site(node, remote, proxy)
        node.stop()
    remote.stop()


def doors(authority: Authority, cert: Path, key: Path) -> list[dict[str, object]]:
    secure = {"certfile": cert, "keyfile": key}
    expired, its_key = authority.vouch("expired", "127.0.0.1", days=-1)
    elsewhere, its_other_key = authority.vouch("elsewhere", "127.0.0.9")
    return [
        secure,
        {**secure, "cafile": authority.cert, "require_certificate": "true"},
        {**secure, "tls_version": "tlsv1.3"},
        {"certfile": expired, "keyfile": its_key},
        {"certfile": elsewhere, "keyfile": its_other_key},
        {"protocol": "websockets"},
        {**secure, "protocol": "websockets"},
    ]


def document(remote: Mosquitto, ours: Authority, other: Authority, proxy: HttpProxy, silent: int) -> dict[str, Any]:
    tls, mutual, tls13, expired, elsewhere, ws, wss = remote.doors
    ca = {"caFile": str(ours.cert)}
    cert, key = ours.vouch("client")
    identity = {"certFile": str(cert), "keyFile": str(key)}
    stranger, its_key = other.vouch("stranger")
    old = {"protocols": ["TLSv1.2"], "cipherSuites": ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]}
    bundle = {"certFile": str(ours.bundle(cert, key, SECRET)), "keyPassword": SECRET}
    way = f"http://user:{SECRET.replace(' ', '%20')}@127.0.0.1:{proxy.port}"
    bridges = {
        "tls": {"port": tls, "bridgeTls": ca},
        "tls12": {"port": tls, "bridgeTls": {**ca, **old}},
        "mutual": {"port": mutual, "bridgeTls": {**ca, **identity}},
        "pkcs12": {"port": mutual, "bridgeTls": {**ca, **bundle}},
        "any-name": {"port": elsewhere, "bridgeTls": {**ca, "verifyHostname": False}},
        "ws": {"port": ws, "bridgeWebsocketConfig": {}},
        "wss": {"port": wss, "bridgeTls": ca, "bridgeWebsocketConfig": {"path": "/some/where", "subProtocol": "mqtt"}},
        "proxy": {"port": remote.port, "proxy": way},
        "wss-proxy": {"port": wss, "bridgeTls": ca, "bridgeWebsocketConfig": {}, "proxy": way},
        "wrong-host": {"port": elsewhere, "bridgeTls": ca},
        "expired": {"port": expired, "bridgeTls": ca},
        "wrong-ca": {"port": tls, "bridgeTls": {"caFile": str(other.cert)}},
        "no-certificate": {"port": mutual, "bridgeTls": {**ca, "protocols": ["TLSv1.2"]}},
        "no-certificate-13": {"port": mutual, "bridgeTls": ca},
        "stranger": {"port": mutual, "bridgeTls": {**ca, "certFile": str(stranger), "keyFile": str(its_key)}},
        "wrong-protocol": {"port": tls13, "bridgeTls": {**ca, "protocols": ["TLSv1.2"]}},
        "not-tls": {"port": remote.port, "bridgeTls": ca},
        "silent": {"port": silent, "bridgeTls": {**ca, "handshakeTimeout": 0.5}},
        "no-file": {"port": tls, "bridgeTls": {"caFile": "/nowhere/ca.pem"}},
        "wrong-secret": {"port": mutual, "bridgeTls": {**ca, **bundle, "keyPassword": "another"}},
        "not-websocket": {"port": tls, "bridgeTls": ca, "bridgeWebsocketConfig": {}},
        "wrong-subprotocol": {"port": ws, "bridgeWebsocketConfig": {"subProtocol": "soap"}},
        "proxy-refuses": {"port": remote.port, "proxy": f"http://127.0.0.1:{proxy.port}"},
    }
    return {
        "pipeline": {"engine": "inline"},
        "bridges": [
            {
                "id": name,
                "host": "127.0.0.1",
                "localSubscriptions": [{"filters": [f"push/{name}/#"]}],
                "remoteSubscriptions": [{"filters": [f"pull/{name}/#"]}],
                **rest,
            }
            for name, rest in bridges.items()
        ],
    }


def payloads(qos: int, large: tuple[int, ...]) -> list[bytes]:
    """Small ones in number, and some larger than any record, frame or buffer."""
    chance = random.Random(qos)
    return [b"%d" % number for number in range(200)] + [chance.randbytes(size) for size in large]


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("name", GOOD)
def test_messages_of_every_qos_cross_whole_and_in_order(site: Site, name: str, direction: str) -> None:
    site.node.wait_connected(name)
    ends = (site.node.port, site.remote.port)
    # Debian's mosquitto takes a second for a frame of 20 kB, and never ends one of megabytes, whoever its client is.
    large = (0, 126, 3_000) if direction == "pull" and name.startswith("ws") else (0, 20_000, 70_000, 3_000_000)
    with Client(ends[direction == "pull"]) as source, Client(ends[direction == "push"]) as target:
        for qos in (0, 1, 2):
            topic = f"{direction}/{name}/{qos}"
            target.subscribe(topic)
            sent = payloads(qos, large)
            source.publish_all([Message(topic, payload, qos) for payload in sent])
            target.wait_until(lambda _, topic=topic, sent=sent: target.came[topic] >= len(sent), f"all of {topic}")
            assert target.topics()[topic] == sent


WHY = {
    "wrong-host": "TLS: the certificate is not for 127.0.0.1 (verifyHostname)",
    "expired": "TLS: the certificate of 127.0.0.1 has expired",
    "wrong-ca": "TLS: the certificate of 127.0.0.1 comes from no authority that we trust (caFile)",
    "no-certificate": "TLS: the remote refused the handshake: it may want a client certificate (certFile, keyFile)",
    "no-certificate-13": "TLS: the remote wants a client certificate (certFile, keyFile)",
    "stranger": "TLS: the remote does not ",  # trust its authority, or accept it, if its alert drowned in a reset
    "wrong-protocol": "TLS: the remote speaks none of the protocol versions that we may (protocols)",
    "not-tls": "TLS: 127.0.0.1 ended the connection during the handshake",
    "silent": "TLS: the handshake with 127.0.0.1 was not over within 0.5 s (handshakeTimeout)",
    "no-file": "caFile cannot be used (no such file or directory)",
    "wrong-secret": "certFile cannot be used with its key (invalid password",
    "not-websocket": "WebSocket: ",
    "wrong-subprotocol": "WebSocket: ",
    "proxy-refuses": "the proxy 127.0.0.1:",
}


@pytest.mark.parametrize("name", WHY)
def test_a_way_that_does_not_work_says_why_in_the_status(site: Site, name: str) -> None:
    said = until(lambda: site.node.status()["bridges"][name]["lastError"], f"{name} has failed")
    assert said.startswith(WHY[name])
    assert site.node.status()["bridges"][name]["state"] != "connected"


def test_the_proxy_was_asked_for_the_way_to_the_remote(site: Site) -> None:
    assert {f"127.0.0.1:{port}" for port in (site.remote.port, site.remote.doors[-1])} <= site.proxy.targets
