"""The load: a process that publishes on a few connections, as fast as it may or at an even pace.

Requests and replies are lines of JSON on stdin and stdout:
    {"do": "connect", "port": 1883, "connections": 4, "level": 5, "topics": 12, "window": 1000, "payload": 100,
     "filling": "telemetry"}
    {"do": "run", "run": 3, "qos": 1, "seconds": 10, "messages": 30000000, "rate": 0, "backlog": 200000, "gather": 0.0005}
End of file ends the process.  A run is over when all was sent and, at QoS 1 and 2, acknowledged.
"""

import gc
import json
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import fillings, packets
from benchmarks import generator_kernels as kernels
from benchmarks.board import Board, Slot
from benchmarks.stream import Closed, Stream

SLICE_SECONDS = 0.001         # paced: what is due leaves every millisecond
BURST = 2000                  # unpaced: messages a write
ACKNOWLEDGE_SECONDS = 20.0    # how long a run waits for its last acknowledgement


class Connection(Stream):
    def __init__(self, index: int, port: int, level: int, window: int, filling: NDArray[np.uint8]) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port), timeout=10))
        self.index = index
        self.level = level
        self.filling = filling                          # of its payloads: nobody else's
        self.published = 0                              # messages of this run
        self.owed: deque[list[int]] = deque()           # paced: [messages, the ns they were due], oldest first
        self.put(packets.connect(f"load-{index}", level))
        self.flush()
        window = min(window, self._await_connack())
        self.ring: NDArray[np.uint16] = np.arange(1, window + 1, dtype=np.uint16)
        self.waits: NDArray[np.uint8] = np.zeros(65536, np.uint8)
        self.flow: NDArray[np.int64] = np.array([0, window, 0, 0, 0, 0], np.int64)

    def _await_connack(self) -> int:
        """The Receive Maximum of the broker."""
        while self.received < 2 or self.received < 2 + int(self.inbox[1]):
            if not select.select([self], [], [], 10)[0]:
                raise packets.Refused("no CONNACK within 10 seconds")
            self.receive()
        end = 2 + int(self.inbox[1])
        body = self.inbox[2:end].tobytes()
        if int(self.inbox[0]) >> 4 != packets.CONNACK:
            raise packets.Refused(f"packet type {self.inbox[0] >> 4} instead of CONNACK")
        self.consume(end)
        return packets.receive_maximum_of_connack(body, self.level)

    @property
    def free(self) -> int:
        return int(self.flow[kernels.FREE])

    @property
    def unacknowledged(self) -> int:
        return int(self.ring.size) - self.free

    def take_acknowledgements(self) -> None:
        if not self.receive():
            return
        consumed = kernels.read_acknowledgements(
            self.inbox, self.received, self.room(), self.ring, self.flow, self.waits)
        self.wrote(int(self.flow[kernels.WROTE]))
        if consumed < self.received and int(self.inbox[consumed]) >> 4 == packets.DISCONNECT:
            raise packets.Refused(f"DISCONNECT: {self.inbox[consumed:self.received].tobytes().hex()}")
        self.consume(consumed)


class Generator:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._connections: list[Connection] = []

    def connect(
        self, port: int, connections: int, level: int, topics: int, window: int, payload: int, filling: str
    ) -> dict[str, Any]:
        if topics % connections or topics > 100:
            raise ValueError("topics must be a multiple of connections (a topic belongs to one of them), 100 at most")
        if payload < kernels.STAMP_BYTES:
            raise ValueError(f"a payload has {kernels.STAMP_BYTES} bytes at least: its time and its sequence")
        parts = fillings.shares(fillings.pool(filling), connections, payload - kernels.STAMP_BYTES)
        for old in self._connections:
            old.close()
        self._topics = topics
        self._payload = payload
        self._level = level
        self._connections = [Connection(index, port, level, window, part) for index, part in enumerate(parts)]
        return {"window": int(self._connections[0].ring.size)}

    def run(
        self, run: int, qos: int, seconds: float, messages: int, rate: int, backlog: int, gather: float
    ) -> dict[str, Any]:
        """Publish for `seconds`, `messages` at most, at `rate` a second (0: as fast as the broker takes them).

        Unpaced, no more than `backlog` messages are ever between generator and counter: what is measured is sustained
        forwarding, not the filling of a buffer.  `gather`: pause between reads of acknowledgements.
        """
        self._begin(run, qos, messages)
        first = time.monotonic_ns()
        until = first + int(seconds * 1e9)
        limit = min(messages, int(rate * seconds)) if rate else messages
        next_slice, due, latest = first, 0, 0
        while True:
            now = time.monotonic_ns()
            if rate and now >= next_slice:
                latest = max(latest, now - next_slice)
                due = self._owe(min(int((now - first) * rate / 1e9) + 1, limit), due, now)
                next_slice += int(SLICE_SECONDS * 1e9)
            over = due >= limit if rate else (now >= until or self._sent >= limit)
            if over and self._settled():
                break
            if now > until + ACKNOWLEDGE_SECONDS * 1e9:
                break
            for connection in self._connections:
                if rate:
                    self._pay(connection)
                elif not over:
                    allowed = min(limit, self._board.get(Slot.ARRIVED) + backlog) - self._sent
                    self._publish(connection, min(BURST, allowed), time.monotonic_ns())
                connection.flush()
            self._board.put(Slot.SENT, self._sent)
            self._wait(max(0, next_slice - time.monotonic_ns()) / 1e9 if rate else max(gather, 0.0002), gather)
        return self._summary(first, latest)

    def _begin(self, run: int, qos: int, messages: int) -> None:
        self._run = run
        self._share = messages // len(self._connections)   # bounds the sequences of the fastest connection too
        self._qos = qos
        self._sent = 0
        frame, *places = packets.publish_template("bench/00", qos, self._level, self._payload)
        self._template = np.frombuffer(frame, np.uint8).copy()
        self._places = np.array(places, np.int64)
        for connection in self._connections:
            connection.published = 0
            connection.owed.clear()
            connection.flow[[kernels.RELEASED, kernels.REFUSED, kernels.STRANGE]] = 0

    def _settled(self) -> bool:
        """All that was due is on its way, and acknowledged."""
        return not any(c.unsent or c.owed or (self._qos and c.unacknowledged) for c in self._connections)

    def _owe(self, target: int, due: int, now: int) -> int:
        """Deal the messages due by now to the connections, each stamped with now even if it has to wait its turn."""
        for index, connection in enumerate(self._connections):
            # sequence s belongs to connection s % connections
            share = len(range(index, target, len(self._connections))) - len(range(index, due, len(self._connections)))
            if share:
                connection.owed.append([share, now])
        return max(target, due)

    def _pay(self, connection: Connection) -> None:
        while connection.owed:
            slice_ = connection.owed[0]
            slice_[0] -= self._publish(connection, slice_[0], slice_[1])
            if slice_[0]:
                return
            connection.owed.popleft()

    def _publish(self, connection: Connection, count: int, stamp: int) -> int:
        """Write up to `count` messages as far as window and outbox allow; how many."""
        if connection.unsent:
            return 0
        room = connection.room()
        count = min(count, room.size // self._template.size, self._share - connection.published)
        if self._qos:
            count = min(count, connection.free)
        if count <= 0:
            return 0
        step = len(self._connections)
        size = kernels.write_publishes(
            room, self._template, self._places, connection.filling, count, self._qos, self._run,
            connection.index + connection.published * step, step, self._topics, stamp,
            connection.ring, connection.flow, connection.waits)
        connection.wrote(size)
        connection.published += count
        self._sent += count
        return count

    def _wait(self, seconds: float, gather: float) -> None:
        """Until a socket can go on or `seconds` have passed; then take what acknowledgements there are."""
        if gather and any(c.unacknowledged for c in self._connections):
            time.sleep(gather)
            seconds = 0
        blocked = [c for c in self._connections if c.unsent]
        readable, _, _ = select.select(self._connections, blocked, [], seconds)
        for connection in readable:
            connection.take_acknowledgements()

    def _summary(self, first: int, latest: int) -> dict[str, Any]:
        flows = [connection.flow for connection in self._connections]
        return {
            "sent": self._sent,
            "first_ns": first,
            "last_ns": time.monotonic_ns(),
            "missing": sum(c.unacknowledged for c in self._connections) if self._qos else 0,
            "refused": int(sum(flow[kernels.REFUSED] for flow in flows)),
            "strange": int(sum(flow[kernels.STRANGE] for flow in flows)),
            "latest_slice_ms": latest / 1e6,
        }


def main() -> None:
    gc.disable()   # no pauses; the process lives for minutes and makes no cycles that matter
    generator = Generator(Board(Path(sys.argv[1])))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            reply = generator.connect(**request) if do == "connect" else generator.run(**request)
        except (Closed, packets.Refused, OSError, ValueError) as reason:
            reply = {"error": f"{type(reason).__name__}: {reason}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
