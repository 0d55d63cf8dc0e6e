"""A broker on a disk that outlives it: the next life can be had at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from making.crashing import Lives
from making.device import Device
from making.house import House

SESSION: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 300}}
"""How a client connects that keeps its session."""


class Site:
    """A house of which the next life can be had at any moment."""

    def __init__(self, directory: Path) -> None:
        self._lives = Lives(directory)
        self._houses: list[House] = []
        self.engine = self._lives.start()
        self.house = self._open()

    def _open(self) -> House:
        self._houses.append(House(engine=self.engine))
        return self._houses[-1]

    def crash(self) -> None:
        self.engine = self._lives.crash()
        self.house = self._open()

    def device(self, version: int = 5) -> Device:
        return Device(self.house.broker, version)

    def left(self) -> list[tuple[str, ...]]:
        """Names of everything that is on the disk of sessions."""
        kinds = ("session", "subscription", "inbound", "ids", "ceiling")
        names = [name for kind in kinds for name, _ in self.engine.states((kind,)) if name[1] != "journal"]
        return names + [("queue", str(number)) for number in self.engine.numbers(("queue", "d"))]

    def close(self) -> None:
        for house in self._houses:
            house.broker.close()
        self._lives.close()
