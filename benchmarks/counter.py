"""The counting remote end: a minimal MQTT server that acknowledges and counts, as a process of its own.

Requests and replies are lines of JSON on stdin and stdout:
    {"do": "begin", "run": 3, "capacity": 30000000, "topics": 12, "gather": 0.0005}   forget all, count this run from now on
    {"do": "report"}                                                                  what has arrived
    {"do": "close"}, {"do": "open"}                                                   an outage: gone, and back on the same port
End of file ends the process.
"""

import gc
import json
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import counter_kernels as kernels
from benchmarks import packets
from benchmarks.board import Board, Slot
from benchmarks.histogram import BUCKETS, percentile_ms
from benchmarks.stream import Closed, Stream


class Peer(Stream):
    """One connection of a bridge (or of the generator itself, when nothing is between)."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.level = 0   # protocol level; 0 until the CONNECT is there
        self.held: NDArray[np.uint8] = np.zeros(65536, np.uint8)   # QoS 2 ids between PUBLISH and PUBREL


class Counter:
    def __init__(self, board: Board) -> None:
        self._board = board
        self.port = 0
        self._peers: list[Peer] = []
        self.open()
        self.begin(run=0, capacity=1, topics=1, gather=0.0)

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=16)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Nobody is connected and nobody can connect."""
        self._listener.close()
        for peer in list(self._peers):
            self._drop(peer)

    def begin(self, run: int, capacity: int, topics: int, gather: float) -> None:
        """`gather`: pause between reads, so that small writes of the system under test are read many at a time."""
        self._run = run
        self._gather = gather
        self._tally = np.zeros(kernels.TALLIES, np.int64)
        self._seen = np.zeros(capacity, np.uint8)
        self._buckets = np.zeros(BUCKETS, np.int64)
        self._newest = np.full(topics, -1, np.int64)
        self._first_arrival = 0
        self._last_connect = 0
        self._board.put(Slot.ARRIVED, 0)
        self._board.put(Slot.LAST_ARRIVAL, 0)

    def report(self) -> dict[str, Any]:
        tally = self._tally
        return {
            "arrived": int(tally[kernels.ARRIVED]),
            "doubled": int(tally[kernels.DOUBLED]),
            "reordered": int(tally[kernels.REORDERED]),
            "stale": int(tally[kernels.STALE]),
            "repeated": int(tally[kernels.REPEATED]),
            "foreign": int(tally[kernels.FOREIGN]),
            "by_qos": [int(tally[kernels.QOS0 + qos]) for qos in range(3)],
            "last_connect": self._last_connect,
            "first_arrival": self._first_arrival,
            "last_arrival": self._board.get(Slot.LAST_ARRIVAL),
            "p50_ms": percentile_ms(self._buckets, 0.5),
            "p99_ms": percentile_ms(self._buckets, 0.99),
            "max_ms": int(tally[kernels.SLOWEST]) / 1e6,
        }

    def serve(self) -> None:
        """Until stdin ends."""
        while True:
            blocked = [peer for peer in self._peers if peer.unsent]
            doors = [] if self._listener.fileno() < 0 else [self._listener]
            readable, writable, _ = select.select([sys.stdin, *doors, *self._peers], blocked, [])
            if sys.stdin in readable and not self._obey():
                return
            if self._listener in readable and self._listener.fileno() >= 0:
                self._peers.append(Peer(self._listener.accept()[0]))
            for peer in [peer for peer in self._peers if peer in readable or peer in writable]:
                try:
                    self._serve_peer(peer)
                except Closed:
                    self._drop(peer)
            if self._gather:
                time.sleep(self._gather)

    def _obey(self) -> bool:
        line = sys.stdin.readline()
        if not line:
            return False
        request = json.loads(line)
        do = request.pop("do")
        if do == "begin":
            self.begin(**request)
        elif do == "open":
            self.open()
        elif do == "close":
            self.close()
        print(json.dumps(self.report()), flush=True)
        return True

    def _serve_peer(self, peer: Peer) -> None:
        if not peer.flush() or not peer.receive():
            return   # a peer that does not read its acknowledgements is not read from either
        now = time.monotonic_ns()
        before = self._tally[kernels.ARRIVED]
        at = 0
        while True:
            count = kernels.read_publishes(
                peer.inbox[at:], peer.received - at, peer.level, peer.room(), peer.held, self._tally, self._seen,
                self._buckets, self._newest, self._run, now)
            peer.wrote(int(self._tally[kernels.WROTE]))
            at += count
            taken = self._control_packet(peer, at)
            at += taken
            if not taken:
                break
        peer.consume(at)
        if self._tally[kernels.ARRIVED] != before:
            self._first_arrival = self._first_arrival or now
            self._board.put(Slot.LAST_ARRIVAL, now)
            self._board.put(Slot.ARRIVED, int(self._tally[kernels.ARRIVED]))
        peer.flush()

    def _control_packet(self, peer: Peer, at: int) -> int:
        """Answer the packet at `at` of the inbox if it is whole and no PUBLISH; its bytes, else 0."""
        head = peer.inbox[at:min(at + 5, peer.received)].tobytes()
        kind = head[0] >> 4 if head else 0
        if len(head) < 2 or kind in (packets.PUBLISH, packets.PUBREL) or all(byte >= 0x80 for byte in head[1:]):
            return 0
        length, body_at = packets.read_varint(head, 1)
        if at + body_at + length > peer.received:
            return 0
        body = peer.inbox[at + body_at:at + body_at + length].tobytes()
        if kind == packets.CONNECT:
            peer.level = packets.level_of_connect(body)
            peer.put(packets.connack(peer.level))
            self._last_connect = time.monotonic_ns()
            self._board.put(Slot.CONNECTED, self._board.get(Slot.CONNECTED) + 1)
        elif kind in (packets.SUBSCRIBE, packets.UNSUBSCRIBE):
            peer.put(packets.answer_subscription(kind, body, peer.level))
        elif kind == packets.PINGREQ:
            peer.put(bytes([packets.PINGRESP << 4, 0]))
        elif kind == packets.DISCONNECT:
            raise Closed("DISCONNECT")
        else:
            raise packets.Refused(f"packet type {kind} from a bridge")
        return body_at + length

    def _drop(self, peer: Peer) -> None:
        self._peers.remove(peer)
        peer.close()
        if peer.level:
            self._board.put(Slot.CONNECTED, self._board.get(Slot.CONNECTED) - 1)


def main() -> None:
    gc.disable()   # no pauses; the process lives for minutes and makes no cycles that matter
    counter = Counter(Board(Path(sys.argv[1])))
    print(json.dumps({"port": counter.port}), flush=True)
    counter.serve()


if __name__ == "__main__":
    main()
