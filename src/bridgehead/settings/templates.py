"""Destinations with everything filled in that is known before the first message; what can never work is told with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.fault import Fault, Path
from bridgehead.settings.route import Subscription
from bridgehead.wire.topictemplate import BRIDGE_NAME, CLIENT_ID, NODE, Template, read_template

if TYPE_CHECKING:
    from bridgehead.settings.model import Settings


def filled_in(destination: str, node: str, bridge: Bridge, variables: Mapping[str, str]) -> Template:
    """A destination of a bridge; ValueError if it cannot work with these values."""
    names = {BRIDGE_NAME: bridge.id, NODE: node, CLIENT_ID: bridge.client_id}
    return read_template(destination, names, variables)


def faults_of_templates(settings: Settings) -> Iterator[Fault]:
    """Destinations that are well written and yet can never work, with what names and variables stand for."""
    for path, bridge, rule in _rules(settings):
        if rule.destination is None:
            continue
        try:
            template = filled_in(rule.destination, settings.node, bridge, settings.variables)
        except ValueError as error:
            yield Fault(path, str(error))
            continue
        for capture in sorted(template.captures, key=str):
            if all(capture.levels(each) is None for each in rule.filters):
                yield Fault(path, f"no filter of this route has a wildcard that {capture} could stand for")


def names_without_value(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Names and variables in destinations whose level is left out, because there is nothing that they stand for."""
    for path, bridge, rule in _rules(settings):
        if rule.destination is not None:
            for name in filled_in(rule.destination, settings.node, bridge, settings.variables).missing:
                yield path, name


def _rules(settings: Settings) -> Iterator[tuple[Path, Bridge, Subscription]]:
    for index, bridge in enumerate(settings.bridges):
        directions: tuple[tuple[str, Sequence[Subscription]], ...] = (
            ("localSubscriptions", bridge.local_subscriptions),
            ("remoteSubscriptions", bridge.remote_subscriptions),
        )
        for key, rules in directions:
            for at, rule in enumerate(rules):
                yield ("bridges", index, key, at, "destination"), bridge, rule
