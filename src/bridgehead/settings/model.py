"""The whole configuration of a node. ``settings.load`` is its only door: it also checks what spans several keys."""

from __future__ import annotations

import dataclasses
import re
import socket
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.keeping import Journal, Persistence, QueuedMessages
from bridgehead.settings.listener import Auth, Console, Listener
from bridgehead.settings.part import FilePath, Part
from bridgehead.settings.pipeline import Pipeline
from bridgehead.settings.route import Route
from bridgehead.settings.transform import DIRECTORY


def _name_of_this_machine() -> str:
    return re.sub(r"[^a-zA-Z0-9_.-]", "-", socket.gethostname())[:255] or "node"


class Settings(Part):
    """A node, as configured."""

    node: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]+$", max_length=255)] = Field(default_factory=_name_of_this_machine)
    data_dir: FilePath = Path("bridgehead-data")
    listeners: tuple[Listener, ...] = (Listener(),)
    auth: Auth = Auth()
    persistence: Persistence = Persistence()
    queued_messages: QueuedMessages = QueuedMessages()
    journal: Journal = Journal()
    pipeline: Pipeline = Pipeline()
    console: Console = Console()
    bridges: tuple[Bridge, ...] = ()
    _directory: Path = PrivateAttr(default_factory=Path.cwd)

    def model_post_init(self, context: Any) -> None:
        if context:
            self._directory = context[DIRECTORY]

    @property
    def directory(self) -> Path:
        """Where the configuration file is: the modules of transforms are looked for there, too."""
        return self._directory

    def routes(self) -> list[Route]:
        """Every route of every bridge, with the node's bounds and engine where the rule names none."""
        queues = self.queued_messages
        return [
            dataclasses.replace(
                route,
                queue_limit=route.queue_limit or queues.max_queued_messages,
                max_queue_bytes=route.max_queue_bytes or queues.max_queue_bytes,
                strategy=route.strategy or queues.strategy,
                engine=route.engine or self.pipeline.engine,
            )
            for bridge in self.bridges
            for route in bridge.routes()
        ]
