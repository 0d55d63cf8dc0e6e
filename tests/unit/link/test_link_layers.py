"""Layers under a link: what the kernel has taken is known through each of them, and what comes is handed up whole."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bridgehead.errors import SettingsError
from bridgehead.link.layer import Layer, LayerError
from bridgehead.link.link import Buffer, Link
from bridgehead.link.tls import RECORD, TlsLayer
from bridgehead.link.trust import Contexts, Trust
from bridgehead.link.tunnel import Proxy, Tunnel
from bridgehead.link.websocket import FRAME, WebSocketLayer
from making.certificates import Authority
from making.span import until
from making.transport import FakeTransport


class Owner:
    """Takes bytes as they come."""

    def __init__(self) -> None:
        self.link = Link(self)
        self.opened = False
        self.came = bytearray()
        self.closed: list[Exception | None] = []

    def link_opened(self) -> None:
        self.opened = True

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        self.came += data[:end].tobytes()
        return end, 0

    def link_closed(self, error: Exception | None) -> None:
        self.closed.append(error)

    def link_writable(self) -> None:
        return


class Peer:
    """The other side of TLS, in memory."""

    def __init__(self, cert: Path, key: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)

    def hears(self, transport: FakeTransport) -> None:
        self._in.write(bytes(transport.taken))
        transport.taken.clear()

    def says(self) -> bytes:
        return self._out.read()

    def greet(self, transport: FakeTransport) -> None:
        """The whole handshake."""
        for _ in range(3):
            self.hears(transport)
            with suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            transport.receive(self.says())

    def is_told_the_end(self, transport: FakeTransport) -> bool:
        """Whether TLS itself says that nothing more comes: else it may have been cut off."""
        self.hears(transport)
        try:
            return not self.tls.read(1)
        except ssl.SSLZeroReturnError:  # we have said it, too
            return True
        except ssl.SSLWantReadError:
            return False

    def read(self, transport: FakeTransport) -> bytes:
        self.hears(transport)
        found = b""
        try:
            while piece := self.tls.read(1 << 16):
                found += piece
        except ssl.SSLWantReadError:
            return found
        return found


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def secured(authority: Authority) -> tuple[Owner, FakeTransport, Peer]:
    peer = Peer(*authority.vouch("peer", "127.0.0.1"))
    owner = Owner()
    context = Contexts(Trust(ca_file=authority.cert)).current()
    transport = connect(TlsLayer(owner.link, context, "127.0.0.1", 10, identified=False))
    peer.greet(transport)
    assert owner.opened
    return owner, transport, peer


def connect(layer: Layer) -> FakeTransport:
    transport = FakeTransport(layer)
    layer.connection_made(transport)
    return transport


async def test_under_tls_a_byte_counts_as_taken_when_its_whole_record_is(
    secured: tuple[Owner, FakeTransport, Peer],
) -> None:
    owner, transport, peer = secured
    transport.stuck = True
    owner.link.write(bytes(2 * RECORD + 10))
    assert (owner.link.written, owner.link.taken) == (2 * RECORD + 10, 0)
    whole = len(transport.buffer)
    transport.drain(RECORD)  # a record is longer than what it carries
    assert owner.link.taken == 0
    transport.drain(RECORD)
    assert owner.link.taken == RECORD
    transport.drain(whole - 2 * RECORD - 1)
    assert owner.link.taken == 2 * RECORD
    transport.drain(1)
    assert owner.link.taken == 2 * RECORD + 10
    assert peer.read(transport) == bytes(2 * RECORD + 10)


async def test_what_comes_under_tls_is_handed_up_however_it_is_cut(secured: tuple[Owner, FakeTransport, Peer]) -> None:
    owner, transport, peer = secured
    said = np.random.default_rng(1).bytes(600_000)
    peer.tls.write(said)
    data = peer.says()
    for start in range(0, len(data), 77_777):
        transport.receive(data[start : start + 77_777])
    assert bytes(owner.came) == said


async def test_nothing_is_handed_up_while_nobody_reads(secured: tuple[Owner, FakeTransport, Peer]) -> None:
    owner, transport, peer = secured
    owner.link.pause_reading()
    assert not transport.reading
    peer.tls.write(b"early")
    transport.reading = True  # a read that was under way
    transport.receive(peer.says())
    assert not owner.came
    owner.link.resume_reading()
    await asyncio.sleep(0)
    assert owner.came == b"early"


async def test_the_end_of_a_tls_conversation_is_the_end_of_the_link(secured: tuple[Owner, FakeTransport, Peer]) -> None:
    owner, transport, peer = secured
    peer.tls.write(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    transport.receive(peer.says())
    await asyncio.sleep(0)
    assert owner.came == b"last words"
    assert owner.closed == [None]
    assert peer.is_told_the_end(transport)


@pytest.mark.parametrize("unread", [b"", b"early" * RECORD], ids=["all is read", "something waits"])
async def test_a_tls_peer_is_told_that_we_say_no_more_and_may_still_speak(
    secured: tuple[Owner, FakeTransport, Peer], unread: bytes
) -> None:
    owner, transport, peer = secured
    owner.link.pause_reading()
    transport.reading = True  # a read that was under way
    peer.tls.write(unread)
    cut = peer.says()
    transport.receive(cut[: len(cut) // 2])
    owner.link.write(b"last words")
    owner.link.finish()
    assert transport.ended
    assert peer.read(transport) == b"last words"
    assert peer.is_told_the_end(transport)
    peer.tls.write(b"late")
    transport.receive(cut[len(cut) // 2 :] + peer.says())
    await asyncio.sleep(0)
    assert not transport.closed
    with suppress(ssl.SSLWantReadError):
        peer.tls.unwrap()
    transport.receive(peer.says())
    await asyncio.sleep(0)
    assert owner.closed == [None]


async def test_what_is_written_after_a_fault_of_tls_is_never_taken(secured: tuple[Owner, FakeTransport, Peer]) -> None:
    owner, transport, _ = secured
    owner.link.write(b"in time")
    transport.receive(b"\x17\x03\x03\x00\x13" + bytes(19))  # a record that nobody has sealed
    owner.link.write(b"too late")
    assert (owner.link.written, owner.link.taken) == (15, 7)
    await asyncio.sleep(0)
    assert str(owner.closed[0]).startswith("TLS: ")
    assert owner.link.taken == 7


async def test_what_is_written_behind_a_close_of_a_websocket_is_never_taken() -> None:
    owner = Owner()
    transport = upgraded(owner)
    owner.link.write(b"in time")
    transport.receive(b"\x88\x02\x03\xe8")
    owner.link.write(b"too late")
    await asyncio.sleep(0)
    assert owner.link.taken == 7


async def test_a_peer_that_does_not_speak_tls_is_named() -> None:
    owner = Owner()
    transport = connect(TlsLayer(owner.link, ssl.create_default_context(), "there", 10, identified=False))
    transport.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await asyncio.sleep(0)
    assert not owner.opened
    assert str(owner.closed[0]) == "TLS: what the remote answered is not TLS (wrong version number)"


async def test_a_handshake_that_takes_too_long_is_given_up() -> None:
    owner = Owner()
    transport = connect(TlsLayer(owner.link, ssl.create_default_context(), "there", 0.001, identified=False))
    await until(lambda: bool(owner.closed))
    assert transport.aborted
    assert isinstance(owner.closed[0], LayerError)
    assert "handshakeTimeout" in str(owner.closed[0])


@pytest.mark.parametrize(("password", "why"), [(None, "needs a password"), (b"wrong", "does not open"), (b"right", None)])
def test_a_key_that_no_password_opens_is_told_as_that(
    authority: Authority, tmp_path: Path, password: bytes | None, why: str | None
) -> None:
    cert, key = authority.vouch("locked")
    locked = tmp_path / "locked.key"
    lock = ["openssl", "pkcs8", "-topk8", "-in", str(key), "-out", str(locked), "-passout", "pass:right"]
    subprocess.run(lock, check=True, capture_output=True, timeout=30)
    contexts = Contexts(Trust(ca_file=authority.cert, cert_file=cert, key_file=locked, key_password=password))
    if why is None:
        contexts.current()
    else:
        with pytest.raises(SettingsError, match=why):
            contexts.current()


def test_a_certificate_that_was_replaced_counts_from_then_on(authority: Authority, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.cert.read_bytes())
    contexts = Contexts(Trust(ca_file=ca))
    first = contexts.current()
    assert contexts.current() is first
    ca.write_bytes(Authority(tmp_path, "another").cert.read_bytes())
    assert contexts.current().get_ca_certs() != first.get_ca_certs()
    ca.unlink()
    with pytest.raises(SettingsError) as caught:
        contexts.current()
    assert caught.value.faults == [("caFile", "cannot be used (no such file or directory)")]


# -- WebSocket ----------------------------------------------------------------------------------------------------------


def upgraded(owner: Owner) -> FakeTransport:
    layer = WebSocketLayer(owner.link, "there", 80, "/mqtt", "mqtt", 10)
    transport = connect(layer)
    request = bytes(transport.taken).decode()
    assert request.startswith("GET /mqtt HTTP/1.1\r\nHost: there:80\r\n")
    transport.taken.clear()
    layer._key = b"dGhlIHNhbXBsZSBub25jZQ=="  # the key of RFC 6455, 1.3, whose answer is known
    transport.receive(UPGRADE)
    return transport


UPGRADE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """What a server reads: every frame masked and final."""
    found = []
    while data:
        assert data[0] & 0x80
        assert data[1] & 0x80
        size, at = data[1] & 127, 2
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(data[2:at], "big")
        mask, body = data[at : at + 4], data[at + 4 : at + 4 + size]
        found.append((data[0] & 15, bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))))
        data = data[at + 4 + size :]
    return found


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, FRAME + 1, 200_000])
async def test_what_is_written_arrives_in_masked_binary_frames(size: int) -> None:
    owner = Owner()
    transport = upgraded(owner)
    payload = np.random.default_rng(size).bytes(size)
    owner.link.write(payload)
    came = frames(bytes(transport.taken))
    assert {opcode for opcode, _ in came} == {2}
    assert b"".join(body for _, body in came) == payload
    assert owner.link.taken == size


async def test_in_a_websocket_frame_every_byte_counts_by_itself() -> None:
    owner = Owner()
    transport = upgraded(owner)
    transport.stuck = True
    owner.link.write(bytes(1000))
    head = len(transport.buffer) - 1000
    transport.drain(head)
    assert owner.link.taken == 0
    transport.drain(10)
    assert owner.link.taken == 10
    transport.drain(990)
    assert owner.link.taken == 1000


async def test_a_ping_is_answered_and_a_close_ends_the_link() -> None:
    owner = Owner()
    transport = upgraded(owner)
    transport.receive(b"\x82\x02ab\x89\x03you\x82\x01c\x88\x02\x03\xe8")
    assert owner.came == b"abc"
    assert frames(bytes(transport.taken)) == [(10, b"you"), (8, b"\x03\xe8")]
    await asyncio.sleep(0)
    assert owner.closed == [None]


async def test_frames_that_come_with_the_answer_to_the_upgrade_are_not_lost() -> None:
    owner = Owner()
    layer = WebSocketLayer(owner.link, "there", 80, "/mqtt", "mqtt", 10)
    transport = connect(layer)
    layer._key = b"dGhlIHNhbXBsZSBub25jZQ=="
    for byte in UPGRADE + b"\x82\x02ab":
        transport.receive(bytes([byte]))
    assert owner.came == b"ab"


REFUSALS = [
    (b"HTTP/1.1 404 Not Found\r\n\r\n", "WebSocket: there:80 answered 404 Not Found to the upgrade at /mqtt"),
    (UPGRADE.replace(b"s3p", b"xxx"), "WebSocket: there:80 answered the upgrade with something else"),
    (UPGRADE.replace(b"Protocol: mqtt", b"Protocol: soap"), "WebSocket: there:80 wants the subprotocol soap, not mqtt"),
    (b"\x20\x02\x00\x00", "WebSocket: the answer is not HTTP"),
    (UPGRADE + b"\x81\x01a", "WebSocket: the remote broke the protocol: a frame that is not binary"),
    (UPGRADE + b"\x82\x81maska", "WebSocket: the remote broke the protocol: a masked frame"),
]


@pytest.mark.parametrize(("answer", "why"), REFUSALS)
async def test_a_server_that_speaks_otherwise_is_refused_with_the_reason(answer: bytes, why: str) -> None:
    owner = Owner()
    layer = WebSocketLayer(owner.link, "there", 80, "/mqtt", "mqtt", 10)
    transport = connect(layer)
    layer._key = b"dGhlIHNhbXBsZSBub25jZQ=="
    transport.receive(answer)
    await asyncio.sleep(0)
    assert [str(error) for error in owner.closed] == [why]


# -- a proxy ------------------------------------------------------------------------------------------------------------


async def test_a_tunnel_asks_with_its_credentials_and_steps_aside() -> None:
    owner = Owner()
    transport = connect(Tunnel(owner.link, Proxy("p", 3128, "Aladdin", "open sesame"), "::1", 1883, 10))
    assert bytes(transport.taken) == (
        b"CONNECT [::1]:1883 HTTP/1.1\r\nHost: [::1]:1883\r\n"
        b"Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
    )
    transport.receive(b"HTTP/1.1 200 OK\r\n")
    assert not owner.opened
    transport.receive(b"Via: p\r\n\r\n")
    assert owner.opened
    assert transport.protocol is owner.link


PROXIES: list[tuple[Callable[[FakeTransport], None], str]] = [
    (lambda t: t.receive(b"HTTP/1.1 403 Forbidden\r\n\r\n"), "the proxy p:1 refused the way to h:2: 403 Forbidden"),
    (lambda t: t.receive(b"SSH-2.0-x\r\n"), "the proxy p:1: the answer is not HTTP"),
    (lambda t: t.receive(b"HTTP/1.1 " + bytes(20_000)), "the proxy p:1: the answer is not HTTP"),
    (lambda t: t.lose(), "the proxy p:1 ended the connection before it answered"),
]


@pytest.mark.parametrize(("happens", "why"), PROXIES)
async def test_a_proxy_that_opens_no_way_is_named(happens: Callable[[FakeTransport], None], why: str) -> None:
    owner = Owner()
    happens(connect(Tunnel(owner.link, Proxy("p", 1), "h", 2, 10)))
    await asyncio.sleep(0)
    assert [str(error) for error in owner.closed] == [why]
