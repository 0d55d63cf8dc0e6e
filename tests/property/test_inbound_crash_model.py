"""A device at QoS 2 whose node dies and whose connection breaks at any moment: everything it sends is in the journal once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.wire.packets import Pubcomp, Publish, Pubrec, Pubrel
from making.device import Device, turn
from making.site import SESSION, Site

ID_STEP = 1500
"""Ids far apart: several pages, and soon used again."""
IDS = [1 + ID_STEP * each for each in range(4)]


class Sender:
    """What MQTT asks of the sending side, and nothing more."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._next = 0
        self._unreceived: dict[int, Publish] = {}  # by packet id: no PUBREC yet
        self._unreleased: list[int] = []  # no PUBCOMP yet
        self._device = self._connect()

    def _connect(self) -> Device:
        device = self._site.device()
        device.connect("d", **SESSION)
        return device

    def publish(self) -> None:
        free = [each for each in IDS if each not in self._unreceived and each not in self._unreleased]
        if free:
            message = Publish(f"out/{self._next}", b"", 2, packet_id=free[0])
            self._next += 1
            self._unreceived[free[0]] = message
            self._device.send(message)

    def hear(self) -> None:
        for packet in self._device.received():
            if isinstance(packet, Pubrec):
                self._unreceived.pop(packet.packet_id, None)
                if packet.packet_id not in self._unreleased:
                    self._unreleased.append(packet.packet_id)
                self._device.send(Pubrel(packet.packet_id))
            elif isinstance(packet, Pubcomp):
                self._unreleased.remove(packet.packet_id)

    def cut(self) -> None:
        self._device.transport.lose()
        self._come_back()

    def crash(self) -> None:
        self._site.crash()
        self._come_back()

    def _come_back(self) -> None:
        self._device = self._connect()
        for message in self._unreceived.values():
            message.dup = True
            self._device.send(message)
        for packet_id in self._unreleased:
            self._device.send(Pubrel(packet_id))

    async def finish(self) -> list[str]:
        """Everything that was to arrive."""
        while self._unreceived or self._unreleased:
            await turn()
            self.hear()
        return [f"out/{number}" for number in range(self._next)]


STEPS = ["publish", "publish", "publish", "turn", "turn", "hear", "hear", "cut", "crash"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_a_device_delivers_once_whatever_breaks(plan: list[str]) -> None:
    async def play(directory: Path) -> None:
        site = Site(directory)
        try:
            sender = Sender(site)
            for step in plan:
                if step == "turn":
                    await turn()
                else:
                    getattr(sender, step)()
            expected = await sender.finish()
            assert sorted(site.house.journalled()) == sorted(expected)
        finally:
            site.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(Path(directory)))
