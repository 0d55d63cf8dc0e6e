"""The whole configuration of a node. ``settings.load`` is its only door: it also checks what spans several keys."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.keeping import Journal, Persistence, QueuedMessages
from bridgehead.settings.listener import Auth, Console, Listener
from bridgehead.settings.part import FilePath, Part
from bridgehead.settings.pipeline import Pipeline
from bridgehead.settings.route import Route
from bridgehead.settings.templates import filled_in
from bridgehead.settings.transform import DIRECTORY

VARIABLES = "variables"
"""The key of the environment in the context of a validation."""


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
    watch_file: bool = True  # follow changes of the configuration file while the node runs
    _directory: Path = PrivateAttr(default_factory=Path.cwd)
    _variables: Mapping[str, str] = PrivateAttr(default_factory=lambda: os.environ)

    def model_post_init(self, context: Any) -> None:
        if context:
            self._directory = context[DIRECTORY]
            self._variables = context.get(VARIABLES, os.environ)

    @property
    def directory(self) -> Path:
        """Where the configuration file is: the modules of transforms are looked for there, too."""
        return self._directory

    @property
    def variables(self) -> Mapping[str, str]:
        """What ``$ENV{NAME}`` in a destination stands for."""
        return self._variables

    def routes(self) -> list[Route]:
        """Every route of every bridge, with the node's bounds and engine where the rule names none, and full destinations."""
        queues = self.queued_messages
        return [
            dataclasses.replace(
                route,
                queue_limit=route.queue_limit or queues.max_queued_messages,
                max_queue_bytes=route.max_queue_bytes or queues.max_queue_bytes,
                strategy=route.strategy or queues.strategy,
                engine=route.engine or self.pipeline.engine,
                destination=self._destination(route, bridge),
            )
            for bridge in self.bridges
            for route in bridge.routes()
        ]

    def _destination(self, route: Route, bridge: Bridge) -> str | None:
        return None if route.destination is None else str(filled_in(route.destination, self.node, bridge, self._variables))
