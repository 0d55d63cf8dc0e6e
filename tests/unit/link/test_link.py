"""One connection: packets whole whatever the reads are, and an exact count of what the kernel took."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from bridgehead.link.link import READ_SIZE, WRITE_HIGH, Buffer, Link
from bridgehead.session.stream import PacketStream
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Intake, ScanResult
from bridgehead.wire.kernels_columns import to_columns
from bridgehead.wire.packets import Packet, Pingreq, Publish, Subscribe, Subscription
from making.transport import FakeTransport


class Owner:
    """Takes packets with the protocol core, as broker and uplink do."""

    def __init__(self) -> None:
        self.link = Link(self)
        self.payloads: list[bytes] = []
        self.packets: list[Packet] = []
        self.closed: list[Exception | None] = []
        self.ended = asyncio.Event()
        self.writable_again = 0
        self._intake = Intake()
        self._stream = PacketStream(from_server=True, version=5)
        self.transport = FakeTransport(self.link)
        self.link.connection_made(self.transport)

    def link_opened(self) -> None:
        return

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        for item in self._stream.feed(data, end, self._intake, 0):
            if isinstance(item, ScanResult):
                rows = self._intake.take()
                self.payloads += to_columns(rows.rows, rows.arena).payload.to_pylist()
            else:
                assert not hasattr(item, "reason"), item
                self.packets.append(item)  # type: ignore[arg-type]
        return self._stream.taken, self._stream.need

    def link_closed(self, error: Exception | None) -> None:
        self.closed.append(error)
        self.ended.set()

    def link_writable(self) -> None:
        self.writable_again += 1


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.link._large = None


STREAM = b"".join(
    encode(packet, 5)
    for packet in (
        Publish("a", b"first", 1, packet_id=1),
        Pingreq(),
        Publish("b", b"", 0),
        Subscribe(9, [Subscription("x/#", 1)]),
        Publish("c", bytes(300), 2, packet_id=2),
    )
)


def test_a_stream_that_is_cut_anywhere_gives_the_same_packets() -> None:
    for cut in range(1, len(STREAM)):
        owner = Owner()
        owner.transport.receive(STREAM[:cut])
        owner.transport.receive(STREAM[cut:])
        assert owner.payloads == [b"first", b"", bytes(300)], cut
        assert [type(packet) for packet in owner.packets] == [Pingreq, Subscribe]


def test_a_stream_that_comes_byte_by_byte_gives_the_same_packets(owner: Owner) -> None:
    for i in range(len(STREAM)):
        owner.transport.receive(STREAM[i : i + 1])
    assert owner.payloads == [b"first", b"", bytes(300)]


def test_links_share_their_read_buffer_and_keep_their_tails_apart(owner: Owner) -> None:
    other = Owner()
    one, two = encode(Publish("a", b"one" * 50), 5), encode(Publish("a", b"two" * 50), 5)
    for i in range(0, len(one), 7):
        owner.transport.receive(one[i : i + 7])
        other.transport.receive(two[i : i + 7])
    assert (owner.payloads, other.payloads) == ([b"one" * 50], [b"two" * 50])


@pytest.mark.parametrize("size", [READ_SIZE // 2, READ_SIZE, READ_SIZE + 1, 5_000_000])
@pytest.mark.parametrize("step", [1460, 65_536, 1 << 30])
def test_a_packet_larger_than_the_shared_buffer_arrives_whole(owner: Owner, size: int, step: int) -> None:
    payload = np.random.default_rng(1).integers(0, 255, size, np.uint8).tobytes()
    data = STREAM + encode(Publish("big", payload), 5) + encode(Publish("z", b"last"), 5)
    for i in range(0, len(data), step):
        owner.transport.receive(data[i : i + step])
    assert owner.payloads == [b"first", b"", bytes(300), payload, b"last"]


def test_a_control_packet_larger_than_the_shared_buffer_arrives_whole(owner: Owner) -> None:
    filters = [Subscription(f"filter/{i:060}", 1) for i in range(6000)]
    data = encode(Subscribe(9, filters), 5) + STREAM
    for i in range(0, len(data), 20_000):
        owner.transport.receive(data[i : i + 20_000])
    assert owner.packets[0] == Subscribe(9, filters)
    assert owner.payloads == [b"first", b"", bytes(300)]


def test_a_large_packet_that_is_only_announced_costs_nothing(owner: Owner) -> None:
    owner.transport.receive(encode(Publish("big", bytes(200_000_000)), 5)[:1000])
    assert owner.link._large is not None
    assert len(owner.link._large) <= READ_SIZE
    owner.transport.receive(bytes(1_000_000))
    assert len(owner.link._large) <= 4_000_000


def test_the_memory_of_a_large_packet_is_given_back(owner: Owner) -> None:
    owner.transport.receive(encode(Publish("big", bytes(3_000_000)), 5))
    assert owner.link._large is None


def test_what_is_written_is_taken_as_the_kernel_takes_it(owner: Owner) -> None:
    owner.link.write(b"abc")
    assert (owner.link.written, owner.link.taken) == (3, 3)
    owner.transport.stuck = True
    owner.link.write(b"defgh")
    assert (owner.link.written, owner.link.taken) == (8, 3)
    owner.transport.drain(2)
    assert owner.link.taken == 5


def test_a_full_write_buffer_stops_writers_until_it_has_drained(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(WRITE_HIGH + 1))
    assert not owner.link.writable
    owner.transport.drain()
    assert owner.link.writable
    assert owner.writable_again == 1


async def test_bytes_that_the_kernel_had_not_taken_when_the_connection_broke_do_not_count_as_taken(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(1000))
    owner.transport.drain(300)
    assert owner.link.taken == 300
    owner.transport.lose(ConnectionResetError())
    assert owner.link.taken == 300
    assert len(owner.closed) == 1


async def test_bytes_that_the_kernel_had_not_taken_at_an_abort_do_not_count_as_taken(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(1000))
    owner.transport.drain(400)
    owner.link.abort()
    assert owner.link.taken == 400
    await asyncio.sleep(0)
    assert owner.closed == [None]
    assert owner.link.taken == 400


async def test_a_peer_that_has_ended_takes_nothing_more(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(1000))
    owner.link.eof_received()
    owner.transport.drain()
    owner.transport.lose()
    assert owner.link.taken == 0


async def test_a_close_that_ran_dry_has_sent_everything(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(1000))
    owner.link.close()
    owner.transport.drain()
    assert owner.closed == [None]
    assert owner.link.taken == 1000


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_what_is_written_after_the_end_is_not_counted_as_sent(owner: Owner, how: str) -> None:
    owner.link.write(b"before")
    getattr(owner.link, how)()
    assert not owner.link.writable
    owner.link.write(b"after")
    assert owner.link.written == 6
    assert bytes(owner.transport.taken) == b"before"


async def test_a_closing_link_does_not_become_writable_again(owner: Owner) -> None:
    owner.transport.stuck = True
    owner.link.write(bytes(WRITE_HIGH + 1))
    owner.link.close()
    owner.transport.drain()
    assert not owner.link.writable
    assert owner.writable_again == 0


async def test_over_a_real_socket_partial_writes_are_counted() -> None:
    """A peer that does not read: the kernel takes what its buffers hold, and the link knows how much that was."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    owner = Owner()
    link = Link(owner)
    await loop.create_connection(lambda: link, *listener.getsockname())
    peer, _ = listener.accept()
    size = 0
    while link.writable:
        link.write(bytes(256 * 1024))
        size += 256 * 1024
    before = link.taken
    assert 0 < before < size
    link.abort()
    assert before <= link.taken < size
    peer.close()
    listener.close()
    await asyncio.sleep(0)


async def test_a_peer_that_is_still_sending_reads_our_last_words() -> None:
    """A close with something unread would be a reset: the peer would lose what it has not read yet."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    owner = Owner()
    link = Link(owner)
    await loop.create_connection(lambda: link, *listener.getsockname())
    peer, _ = listener.accept()
    peer.setblocking(False)
    link.pause_reading()
    await loop.sock_sendall(peer, encode(Publish("a", bytes(1000)), 5) * 100)
    link.write(b"goodbye")
    link.finish()
    await loop.sock_sendall(peer, encode(Publish("b", bytes(1000)), 5) * 20_000)
    said = b""
    while part := await loop.sock_recv(peer, 100):
        said += part
    assert said == b"goodbye"
    assert owner.closed == []
    peer.close()
    await owner.ended.wait()
    assert owner.payloads == []
    listener.close()


async def test_what_a_peer_said_before_it_reset_the_connection_is_heard() -> None:
    """A peer that closes with something unread resets the connection. Our next write meets that before our next read."""
    owner, peer = await _connected()
    owner.link.write(b"never read")
    peer.sendall(STREAM)
    peer.close()
    owner.link.write(b"too late")
    await owner.ended.wait()
    assert owner.payloads == [b"first", b"", bytes(300)]
    assert [type(error) for error in owner.closed] == [ConnectionResetError]


async def test_what_nobody_wanted_to_read_is_not_read_after_a_reset_either() -> None:
    owner, peer = await _connected()
    owner.link.pause_reading()
    owner.link.write(b"never read")
    peer.sendall(STREAM)
    peer.close()
    owner.link.write(b"too late")
    await owner.ended.wait()
    assert owner.payloads == []


async def test_an_end_said_to_a_peer_that_has_just_reset_the_connection_is_an_end() -> None:
    """Over TLS a broker that closes on DISCONNECT may find our close_notify unread: that is a reset."""
    owner, peer = await _connected()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    owner.link.finish()
    await owner.ended.wait()
    assert len(owner.closed) == 1


async def _connected() -> tuple[Owner, socket.socket]:
    """A link with a real socket, and the other end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        owner = Owner()
        owner.link = Link(owner)
        await asyncio.get_running_loop().create_connection(lambda: owner.link, *listener.getsockname())
        return owner, listener.accept()[0]
