"""A small MQTT client for the demo, standing on the same protocol core as the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import OUTBOX
from bridgehead.errors import StartError
from bridgehead.link.link import Buffer, Link
from bridgehead.session.rows import wire_batch
from bridgehead.session.sender import Sender
from bridgehead.session.stream import Fault, PacketStream
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Intake, ScanResult
from bridgehead.wire.packets import Connack, Connect, Disconnect, Suback, Subscribe, Subscription

VERSION = 5


class DemoClient:
    """Publishes at QoS 1 and hands every batch it receives to ``on_batch``."""

    def __init__(self, client_id: str, on_batch: Callable[[Batch], None] | None = None) -> None:
        self._client_id = client_id
        self._on_batch = on_batch
        self._link = Link(self)
        self._stream = PacketStream(from_server=True, version=VERSION)
        self._intake = Intake()
        self._sender = Sender(VERSION, 65_535)
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = 0

    async def connect(self, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self._link, "127.0.0.1", port)
        await self._answer

    async def subscribe(self, topic_filter: str) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self._link.write(encode(Subscribe(65_000, [Subscription(topic_filter, qos=1)]), VERSION))
        await self._answer

    def publish(self, topics: list[str], payloads: list[bytes]) -> int:
        """Send as many as the window has room for; returns how many went."""
        count = min(len(topics), self._sender.room)
        if count:
            batch = _rows(topics[:count], payloads[:count])
            seqs = np.arange(self._sent, self._sent + count, dtype=np.int64)
            self._link.write(self._sender.send(0, seqs, batch, now_us()).data)
            self._sent += count
        return count

    def close(self) -> None:
        self._link.write(encode(Disconnect(), VERSION))
        self._link.close()

    def link_opened(self) -> None:
        self._link.write(encode(Connect(client_id=self._client_id, keep_alive=0), VERSION))

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        for item in self._stream.feed(data, end, self._intake, 0):
            if isinstance(item, Fault):
                self._fail(item.text)
            elif isinstance(item, ScanResult):
                if len(item.acks):
                    self._link.write(self._sender.acked(item.acks)[0])
                if item.row_to > item.row_from and self._on_batch is not None:
                    self._on_batch(wire_batch(self._intake.take()))
                self._link.write(item.replies)
            elif isinstance(item, Connack | Suback) and not self._answer.done():
                self._answer.set_result(None)
        return self._stream.taken, self._stream.need

    def link_closed(self, error: Exception | None) -> None:
        self._fail(f"connection closed: {error}")

    def _fail(self, text: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(StartError(f"{self._client_id}: {text}"))

    def link_writable(self) -> None:
        return


def _rows(topics: list[str], payloads: list[bytes]) -> Batch:
    rows = len(topics)
    qos = pa.array(np.ones(rows, np.int32))
    given = {"topic": pa.array(topics, pa.string()), "payload": pa.array(payloads, pa.binary()), "qos": qos, "wire_qos": qos}
    given["retain"] = pa.array(np.zeros(rows, bool))
    columns = [given[field.name] if field.name in given else pa.nulls(rows, field.type) for field in OUTBOX]
    return pa.RecordBatch.from_arrays(columns, schema=OUTBOX)
