"""Destinations with everything filled in that is known before the first message; what can never work is told with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.fault import Fault, Path
from bridgehead.wire.topictemplate import BRIDGE_NAME, NODE, Template, read_template

if TYPE_CHECKING:
    from bridgehead.settings.model import Settings

_DIRECTIONS = ("localSubscriptions", "remoteSubscriptions")


def filled_in(destination: str, node: str, bridge: Bridge, variables: Mapping[str, str]) -> Template:
    """A destination of a bridge; ValueError if it cannot work with these values."""
    return read_template(destination, _names(node, bridge.id), variables)


def faults_of_templates(document: object, variables: Mapping[str, str]) -> Iterator[Fault]:
    """Destinations that can never work with what names and variables stand for, or with the filters of their route.

    As in ``across``, it is the plain document that is looked at: all faults are to be told at once.
    """
    root = document if isinstance(document, dict) else {}
    for path, bridge, rule in _rules_of(root):
        destination, filters, name = rule.get("destination"), rule.get("filters"), bridge.get("id")
        if not isinstance(destination, str) or not isinstance(name, str):
            continue
        try:
            template = read_template(destination, _names(str(root.get("node") or "node"), name), variables)
        except ValueError as error:
            yield Fault(path, str(error))
            continue
        if isinstance(filters, list) and all(isinstance(each, str) for each in filters):
            for capture in sorted(template.captures, key=str):
                if all(capture.levels(each) is None for each in filters):
                    yield Fault(path, f"no filter of this route has a wildcard that {capture} could stand for")
                    break


def left_out_of(settings: Settings) -> Iterator[tuple[Path, str]]:
    """What stands in destinations and never comes to a topic: names and variables without a value, text beside ``{#}``."""
    for index, bridge in enumerate(settings.bridges):
        for key, rules in zip(_DIRECTIONS, (bridge.local_subscriptions, bridge.remote_subscriptions), strict=True):
            for at, rule in enumerate(rules):
                if rule.destination is not None:
                    template = filled_in(rule.destination, settings.node, bridge, settings.variables)
                    for name in template.missing:
                        yield ("bridges", index, key, at, "destination"), f"{name} stands for nothing: its level"
                    for text in template.left_out:
                        yield ("bridges", index, key, at, "destination"), f"the text {text}"


def _names(node: str, bridge: str) -> dict[str, str]:
    return {BRIDGE_NAME: bridge, NODE: node}


def _rules_of(root: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Mapping[str, Any]]]:
    """Every rule of the document, with its bridge and the place of its destination."""
    for index, bridge in _mappings(root.get("bridges")):
        for key in _DIRECTIONS:
            for at, rule in _mappings(bridge.get(key)):
                yield ("bridges", index, key, at, "destination"), bridge, rule


def _mappings(value: object) -> Sequence[tuple[int, Mapping[str, Any]]]:
    return [(at, each) for at, each in enumerate(value if isinstance(value, list) else ()) if isinstance(each, dict)]
