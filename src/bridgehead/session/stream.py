"""A peer's bytes as a sequence of items: scanned runs of the hot packets, and control packets one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode import decode, frame
from bridgehead.wire.intake import CONTROL, ERROR, Intake, ScanResult
from bridgehead.wire.packets import Packet
from bridgehead.wire.reason import Reason

MAX_PACKET = 268_435_455 + 5
CONNECT_LIMIT = 1 << 20
"""Before a peer has said who it is, it gets this much room and no more."""

_CONNECT_STARTS = ((b"\0\4MQTT\5", 5), (b"\0\4MQTT\4", 4), (b"\0\6MQIsdp\3", 3))

INBOUND_IDS = 1 << 16


def no_inbound_ids() -> npt.NDArray[np.uint8]:
    """QoS 2 packet ids received and not yet released: none."""
    return np.zeros(INBOUND_IDS, np.uint8)


@dataclass(slots=True)
class Fault:
    """The peer broke the protocol: tell it this and close."""

    reason: int
    text: str


class PacketStream:
    """What one peer sends. ``inbound`` belongs to the session and outlives the connection."""

    def __init__(self, *, from_server: bool, version: int = 0) -> None:
        self.version = version  # 0 until CONNECT says it
        self.announced = 0  # the version that a CONNECT begins with: known also of one that is refused
        self.inbound = no_inbound_ids() if from_server else np.zeros(0, np.uint8)
        self.greeted = True  # False: CONNACK has not come, and before it no message may
        self.taken = 0  # how far the last feed came
        self.need = 0  # size of the incomplete packet behind it, 0 if not known
        self._from_server = from_server

    def feed(self, data: npt.NDArray[np.uint8], end: int, intake: Intake, conn: int) -> Iterator[ScanResult | Packet | Fault]:
        """Items of data[:end] in order. Stop iterating to stop taking; after a Fault nothing follows."""
        self.taken = self.need = 0
        while self.taken < end:
            if self.version and self.greeted and data[self.taken] >> 4 in (3, 4, 5, 6, 7):
                run = intake.scan(
                    data, self.taken, end, self.version, conn, self.inbound, MAX_PACKET, from_server=self._from_server
                )
                self.taken, self.need = run.consumed, run.need
                if run.row_to > run.row_from or run.replies or len(run.acks):
                    yield run
                if run.stop == ERROR:
                    yield Fault(run.reason, f"malformed packet (0x{run.reason:02x})")
                    return
                if run.stop != CONTROL:
                    return
                if self.taken >= end:
                    return
                continue
            try:
                packet = self._control(data, end)
            except ProtocolError as error:
                yield Fault(error.reason, str(error))
                return
            if packet is None:
                return
            yield packet

    def _control(self, data: npt.NDArray[np.uint8], end: int) -> Packet | None:
        limit = MAX_PACKET if self.version else CONNECT_LIMIT
        head = frame(data.data[self.taken : end], limit, version=self.version)
        if head is None:
            return None
        first_byte, header, remaining = head
        if not self.version and first_byte >> 4 != 1:
            raise ProtocolError(Reason.PROTOCOL_ERROR, "the first packet was not CONNECT")
        if end - self.taken < header + remaining:
            self.need = header + remaining
            return None
        body = data[self.taken + header : self.taken + header + remaining].tobytes()
        if not self.version:
            self.announced = next((level for start, level in _CONNECT_STARTS if body.startswith(start)), 0)
        packet = decode(first_byte, body, self.version)
        self.taken += header + remaining
        return packet
