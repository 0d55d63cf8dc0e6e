"""What differs between two settings, as far as a running node can follow: pure, so that it can be held against its laws.

Bridges are compared as a whole, with the routes that come of them: what a route takes from the node (its engine, its bounds)
counts as much as what its rule says. Everything else in the settings takes effect at the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route


@dataclass(frozen=True, slots=True)
class Parts:
    """Ids that are in both settings and equal, in both and not equal, only in the new, only in the old; in their order."""

    kept: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.changed or self.added or self.removed)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a change does to bridges and to routes, and what it cannot do before the next start."""

    bridges: Parts = field(default_factory=Parts)
    routes: Parts = field(default_factory=Parts)
    at_next_start: tuple[str, ...] = ()  # keys of the file

    def __bool__(self) -> bool:
        return bool(self.bridges or self.routes)


def difference(old: Settings, new: Settings) -> Difference:
    return Difference(
        bridges=_parts(_bridges(old), _bridges(new)),
        routes=_parts({route.id: route for route in old.routes()}, {route.id: route for route in new.routes()}),
        at_next_start=tuple(
            field.alias or name
            for name, field in Settings.model_fields.items()
            if name != "bridges" and _fixed(name, old) != _fixed(name, new)
        ),
    )


def followed(running: Settings, new: Settings) -> Settings:
    """The running settings with all of the new ones that a node can follow."""
    live = {"bridges": new.bridges, "queued_messages": new.queued_messages}
    pipeline = running.pipeline.model_copy(update={"engine": new.pipeline.engine})
    return running.model_copy(update={**live, "pipeline": pipeline})


def _fixed(name: str, settings: Settings) -> object:
    """What of a key is only looked at when a node starts. The bounds of queues are followed, but for those of local clients."""
    value = getattr(settings, name)
    return value.model_copy(update={"engine": "inline"}) if name == "pipeline" else value


def _bridges(settings: Settings) -> dict[str, tuple[Bridge, tuple[Route, ...]]]:
    routes = settings.routes()
    return {each.id: (each, tuple(route for route in routes if route.bridge == each.id)) for each in settings.bridges}


def _parts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Parts:
    both = [name for name in new if name in old]
    return Parts(
        kept=tuple(name for name in both if old[name] == new[name]),
        changed=tuple(name for name in both if old[name] != new[name]),
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
    )
