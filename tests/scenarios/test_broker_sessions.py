"""Sessions of the local broker: take-over, keeping and forgetting them, what waits for an absent client, wills."""

from __future__ import annotations

import socket
import uuid

import pytest

from support.client import VERSIONS, Client, Message
from support.node import NodeProcess
from support.raw import connect_packet, packet, read_packet, text
from support.waiting import until

every_version = pytest.mark.parametrize("version", VERSIONS)
KEPT = {"SessionExpiryInterval": 300}


@pytest.fixture
def name() -> str:
    return f"test/{uuid.uuid4().hex}"


def kept(port: int, version: str, client_id: str) -> Client:
    """A client whose session stays when it goes."""
    return Client(port, version, client_id, clean=False, connect=KEPT)


def sessions(node: NodeProcess) -> int:
    count: int = node.status()["broker"]["sessions"]
    return count


def test_a_second_connection_takes_the_session_over(plain_node: NodeProcess, name: str) -> None:
    first = kept(plain_node.port, "5", name)
    first.subscribe(name)
    with kept(plain_node.port, "5", name) as second:
        assert first.disconnected.wait(60)
        assert first.goodbye is not None
        assert first.goodbye.value == 0x8E
        assert second.session_present
        second.publish_all([Message(name, b"x", 1)])
        assert [message.payload for message in second.wait_for(1)] == [b"x"]
        second.close(session_expiry=0)
    first.close()


def test_a_second_connection_closes_the_first_also_in_3_1_1(plain_node: NodeProcess, name: str) -> None:
    first = Client(plain_node.port, "3.1.1", name)
    with Client(plain_node.port, "3.1.1", name) as second:
        assert first.disconnected.wait(60)
        assert not second.session_present
    first.close()


@every_version
def test_a_kept_session_gets_what_came_while_it_was_away(plain_node: NodeProcess, name: str, version: str) -> None:
    with kept(plain_node.port, version, name) as before:
        before.subscribe(name, 2)
    with Client(plain_node.port, version) as source:
        source.publish_all([Message(name, b"%d" % number, number % 3) for number in range(30)])
    with kept(plain_node.port, version, name) as after:
        assert after.session_present
        after.wait_for(20)
        came = after.barrier()
        for qos in (0, 1, 2):  # paho hands a message of QoS 2 out when its handshake is over: order holds within a QoS
            expected = [b"%d" % number for number in range(30) if number % 3 == qos and qos]
            assert [message.payload for message in came if message.qos == qos] == expected
    with Client(plain_node.port, version, name, clean=True) as end:
        assert not end.session_present


@every_version
def test_a_clean_start_forgets_the_session(plain_node: NodeProcess, name: str, version: str) -> None:
    with kept(plain_node.port, version, name) as before:
        before.subscribe(name)
    with Client(plain_node.port, version, name, clean=True) as after:
        assert not after.session_present
        after.publish_all([Message(name, b"x", 1)])
        assert after.barrier() == []


def test_a_session_is_forgotten_when_its_time_is_over(plain_node: NodeProcess, name: str) -> None:
    before = sessions(plain_node)
    with Client(plain_node.port, "5", name, clean=False, connect={"SessionExpiryInterval": 1}) as client:
        client.subscribe(name)
    until(lambda: sessions(plain_node) == before, "the session is forgotten")
    with Client(plain_node.port, "5", name, clean=False) as after:
        assert not after.session_present


def test_a_disconnect_may_shorten_the_life_of_its_session(plain_node: NodeProcess, name: str) -> None:
    kept(plain_node.port, "5", name).close(session_expiry=0)
    with Client(plain_node.port, "5", name, clean=False) as after:
        assert not after.session_present


@every_version
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_not_acknowledged_is_sent_again_with_dup_to_a_resumed_session(
    plain_node: NodeProcess, name: str, version: str, qos: int
) -> None:
    level = {"3.1.1": 4, "5": 5}[version]
    with kept(plain_node.port, version, name) as before:
        before.subscribe(name, qos)
    with Client(plain_node.port, version) as source:
        source.publish_all([Message(name, b"once", qos)])
    for dup in (False, True):
        with socket.create_connection(("127.0.0.1", plain_node.port), timeout=60) as raw:
            raw.sendall(connect_packet(level, name, clean=False))
            assert read_packet(raw)[0] == 0x20
            first_byte, body = read_packet(raw)
            assert first_byte == 0x30 | qos << 1 | dup << 3
            assert body.endswith(b"once")
    with Client(plain_node.port, version, name, clean=True):
        pass


@pytest.mark.parametrize("level", [4, 5])
def test_a_message_of_qos_2_that_a_client_sends_again_after_a_cut_is_delivered_once(
    plain_node: NodeProcess, name: str, level: int
) -> None:
    body = text(name) + b"\x00\x05" + (b"\0" if level == 5 else b"") + b"once"
    with Client(plain_node.port) as watcher:
        watcher.subscribe(name)
        for first_byte, present in ((0x34, 0), (0x3C, 1)):
            with socket.create_connection(("127.0.0.1", plain_node.port), timeout=60) as raw:
                raw.sendall(connect_packet(level, name, clean=False))
                assert read_packet(raw)[1][0] == present
                raw.sendall(packet(first_byte, body))
                assert read_packet(raw) == (0x50, b"\x00\x05")
                if present:
                    raw.sendall(b"\x62\x02\x00\x05")
                    assert read_packet(raw) == (0x70, b"\x00\x05")
                    raw.sendall(b"\x62\x02\x00\x05")  # again: MQTT 5 can say that it knows nothing of it any more
                    assert read_packet(raw) == (0x70, b"\x00\x05" + (b"\x92" if level == 5 else b""))
        watcher.wait_for(1)
        assert [message.payload for message in watcher.barrier()] == [b"once"]
    with Client(plain_node.port, client_id=name, clean=True):
        pass


def will(name: str, **properties: int) -> Message:
    return Message(name, b"gone", 1, properties={"ContentType": "text/plain", **properties})


@every_version
def test_the_will_of_a_client_that_is_cut_off_is_published(plain_node: NodeProcess, name: str, version: str) -> None:
    with Client(plain_node.port, version) as watcher:
        watcher.subscribe(name)
        last = will(name) if version == "5" else Message(name, b"gone", 1)
        Client(plain_node.port, version, will=last).cut()
        assert [message.payload for message in watcher.wait_for(1)] == [b"gone"]
        assert watcher.messages[0].properties == ({"ContentType": "text/plain"} if version == "5" else {})


@every_version
def test_the_will_of_a_client_that_says_goodbye_is_not_published(plain_node: NodeProcess, name: str, version: str) -> None:
    with Client(plain_node.port, version) as watcher:
        watcher.subscribe(name)
        Client(plain_node.port, version, will=Message(name, b"gone", 1)).close()
        assert watcher.barrier() == []


def test_a_delayed_will_is_not_published_when_its_client_is_back_in_time(plain_node: NodeProcess, name: str) -> None:
    with Client(plain_node.port) as watcher:
        watcher.subscribe(name)
        connect = {"SessionExpiryInterval": 300}
        delayed = will(name, WillDelayInterval=2)
        Client(plain_node.port, client_id=name, clean=False, connect=connect, will=delayed).cut()
        # The same client with a will that is not delayed: only this one comes.
        quick = Message(name, b"second", 1)
        Client(plain_node.port, client_id=name, clean=False, connect=connect, will=quick).cut()
        assert [message.payload for message in watcher.wait_for(1)] == [b"second"]
        # A third will with the same delay, started after the first: when it is there, the first would have been.
        Client(plain_node.port, client_id=f"{name}-3", connect=connect, will=will(f"{name}", WillDelayInterval=2)).cut()
        assert [message.payload for message in watcher.wait_for(2)] == [b"second", b"gone"]
        assert len(watcher.barrier()) == 2
    with Client(plain_node.port, client_id=name, clean=True):
        pass


@pytest.mark.parametrize(("level", "farewell"), [(4, b""), (5, b"\xe0\x01\x8d")])
def test_a_client_that_is_silent_beyond_its_keep_alive_is_closed_and_its_will_published(
    plain_node: NodeProcess, name: str, level: int, farewell: bytes
) -> None:
    with Client(plain_node.port) as watcher, socket.create_connection(("127.0.0.1", plain_node.port), timeout=60) as raw:
        watcher.subscribe(name)
        raw.sendall(connect_packet(level, name, keep_alive=1, will=(name, b"gone")))
        assert read_packet(raw)[0] == 0x20
        rest = b"".join(iter(lambda: raw.recv(100), b""))
        assert rest == farewell
        assert [message.payload for message in watcher.wait_for(1)] == [b"gone"]


def test_a_client_that_pings_within_its_keep_alive_stays(plain_node: NodeProcess, name: str) -> None:
    with Client(plain_node.port, keep_alive=1) as client:
        client.subscribe(name)
        # Another client with the same keep alive, silent from now on, is the clock of this test.
        with socket.create_connection(("127.0.0.1", plain_node.port), timeout=60) as silent:
            silent.sendall(connect_packet(5, f"{name}-silent", keep_alive=1))
            while silent.recv(100):
                continue
        assert not client.disconnected.is_set()
        client.publish_all([Message(name, b"still here", 1)])
        assert [message.payload for message in client.wait_for(1)] == [b"still here"]
