"""kill -9 of a file-native node while messages come in: each is taken once, and waits for those who keep their session."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from support.client import VERSIONS, Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.raw import connect_packet, packet, read_packet, text
from support.stream import Stream, numbers
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.mosquitto

KEPT = {"SessionExpiryInterval": 300}
PUBLISH, PUBREC, PUBREL, PUBCOMP = 0x34, 0x50, 0x62, 0x70
DUP = 0x08
KILLS = 4


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("inwards")).start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    bridge = {
        "id": "inwards",
        "host": "127.0.0.1",
        "port": remote.port,
        "localSubscriptions": [{"filters": ["up/#"]}],
        "remoteSubscriptions": [{"filters": ["down/#"]}],
    }
    document = {"persistence": {"mode": "file-native"}, "pipeline": {"engine": "inline"}, "bridges": [bridge]}
    node = NodeProcess(tmp_path_factory.mktemp("node"), document).start()
    yield node
    node.close()


def kept(port: int, version: str, client_id: str) -> Client:
    return Client(port, version, client_id, clean=False, connect=KEPT)


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


class Device:
    """A device that keeps its session and does one thing at a time."""

    def __init__(self, node: NodeProcess, level: int, name: str) -> None:
        self._level = level
        self._socket = socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE)
        self._socket.sendall(connect_packet(level, name, clean=False))
        first, body = read_packet(self._socket)
        assert (first, body[1]) == (0x20, 0)
        self.session_present = bool(body[0])

    def publish(self, topic: str, packet_id: int, *, again: bool = False) -> None:
        body = text(topic) + packet_id.to_bytes(2, "big") + (b"\0" if self._level == 5 else b"") + b"x"
        self._socket.sendall(packet(PUBLISH | (DUP if again else 0), body))

    def release(self, packet_id: int) -> None:
        self._socket.sendall(packet(PUBREL, packet_id.to_bytes(2, "big")))

    def expect(self, kind: int, packet_id: int) -> None:
        first, body = read_packet(self._socket)
        assert (first, int.from_bytes(body[:2], "big")) == (kind, packet_id)

    def close(self) -> None:
        self._socket.close()


MOMENTS = ("PUBLISH", "PUBREC", "PUBREL", "PUBCOMP")
"""The last thing that happened before the node died."""


def half_way(node: NodeProcess, level: int, moment: str) -> Device:
    """A device whose message has come so far."""
    device = Device(node, level, f"{level}-{moment}")
    device.publish(f"up/{level}/{moment}", 7)
    if moment != "PUBLISH":
        device.expect(PUBREC, 7)
    if moment in ("PUBREL", "PUBCOMP"):
        device.release(7)
    if moment == "PUBCOMP":
        device.expect(PUBCOMP, 7)
    return device


def go_on(node: NodeProcess, level: int, moment: str) -> None:
    """The device comes back, ends what it was at, and sends another message with the same id."""
    device = Device(node, level, f"{level}-{moment}")
    assert device.session_present
    if moment in ("PUBLISH", "PUBREC"):
        device.publish(f"up/{level}/{moment}", 7, again=True)
        device.expect(PUBREC, 7)
    if moment != "PUBCOMP":
        device.release(7)
        device.expect(PUBCOMP, 7)
    device.publish(f"up/{level}/{moment}", 7)
    device.expect(PUBREC, 7)
    device.release(7)
    device.expect(PUBCOMP, 7)
    device.close()


def test_devices_whose_node_dies_in_the_middle_of_qos_2_deliver_once(node: NodeProcess, remote: Mosquitto) -> None:
    every = [(level, moment) for level in (4, 5) for moment in MOMENTS]
    with Client(remote.port) as there:
        there.subscribe("up/#")
        devices = [half_way(node, *each) for each in every]
        node.kill()
        for device in devices:
            device.close()
        node.start()
        for each in every:
            go_on(node, *each)
        node.wait_drained()
        there.barrier()
        came = {topic: len(payloads) for topic, payloads in there.topics().items()}
    assert came == {f"up/{level}/{moment}": 2 for level, moment in every}


def test_sessions_and_what_waits_for_them_are_there_after_a_kill(node: NodeProcess) -> None:
    for version in VERSIONS:
        with kept(node.port, version, f"kept-{version}") as before:
            before.subscribe("here/#", 2)
    with Client(node.port) as source:
        source.publish_all([Message("here/a", b"%d" % n, 1 + n % 2) for n in range(500)])
        source.publish_all([Message(f"state/{qos}", b"on", qos, retain=True) for qos in (0, 1, 2)])
    restart(node)
    with Client(node.port) as curious:
        curious.subscribe("state/#")
        assert sorted(m.topic for m in curious.barrier()) == ["state/1", "state/2"]
    with Client(node.port) as source:
        source.publish_all([Message("here/a", b"%d" % n, 1 + n % 2) for n in range(500, 600)])
    for version in VERSIONS:
        with kept(node.port, version, f"kept-{version}") as after:
            assert after.session_present
            after.wait_for(600)
            came = after.barrier()
        for qos in (1, 2):  # paho hands a message of QoS 2 out when its handshake is over: order holds within a QoS
            assert [int(m.payload) for m in came if m.qos == qos] == list(range(qos - 1, 600, 2))
        with Client(node.port, version, f"kept-{version}", clean=True) as end:
            assert not end.session_present
    restart(node)
    for version in VERSIONS:
        with kept(node.port, version, f"kept-{version}") as gone:
            assert not gone.session_present


def test_what_the_remote_sends_through_kills_of_the_node_reaches_a_kept_session(node: NodeProcess, remote: Mosquitto) -> None:
    with kept(node.port, "5", "listener") as listener:
        listener.subscribe("down/#", 2)
    with Client(remote.port) as one, Client(remote.port) as two:
        streams = [Stream(one, "down/1", 1), Stream(two, "down/2", 2)]
        for _ in range(KILLS):
            marks = [stream.sent + 200 for stream in streams]
            until(lambda marks=marks: all(s.sent > m for s, m in zip(streams, marks, strict=True)), "messages flow")
            restart(node)
        sent = [stream.stop() for stream in streams]
        node.wait_drained()
    with kept(node.port, "5", "listener") as listener:
        assert listener.session_present
        listener.wait_until(lambda came: {m.payload for m in came} >= {b"%d" % (n - 1) for n in sent}, "the last ones come")
        listener.barrier()
        assert sorted(set(numbers(listener, "down/1"))) == list(range(sent[0]))
        assert numbers(listener, "down/2") == list(range(sent[1])), "once each, in order"
