"""What a configuration is allowed to say and somebody may not have meant: told by ``check``, and by ``run`` at the start."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.settings.fault import path_text
from bridgehead.settings.model import Settings


def advice(settings: Settings) -> Iterator[str]:
    """A line for everything that is worth a second look, with its place in the file."""
    for index, bridge in enumerate(settings.bridges):
        if not bridge.persist and any(route.max_qos > 0 for route in bridge.routes()):
            place = path_text(("bridges", index, "persist"))
            yield (
                f"{place}: bridge {bridge.id} lowers QoS 1 and 2 to QoS 0: "
                "no acknowledgement is waited for, nothing is sent again, nothing survives a restart"
            )
