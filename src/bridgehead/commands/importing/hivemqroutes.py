"""The rules of a bridge of HiveMQ Edge as routes: forwarded topics and remote subscriptions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.taking import Taking
from bridgehead.commands.importing.values import as_number, as_yes
from bridgehead.commands.importing.xmltree import Element
from bridgehead.wire.topicnames import intersect, valid_filter

Rule = dict[str, Any]


def routes_of(elements: list[Element], key: str, limit: int | None, report: Report) -> list[Rule]:
    """``limit`` is that of a queue where the rule has none of its own."""
    rules: dict[tuple[Any, ...], Rule] = {}
    for element in elements:
        rule = _rule(element, f"{key}[{len(rules)}]", limit, report)
        if rule is None:
            continue
        identity = (tuple(sorted(rule["filters"])), rule.get("destination"))
        if identity in rules:
            report.differ(element.place, "the same filters and destination as a rule before: the later one counts, as there")
        rules[identity] = rule
    return list(rules.values())


def _rule(element: Element, key: str, limit: int | None, report: Report) -> Rule | None:
    filters = _texts(element.one("filters"), "mqtt-topic-filter")
    if not filters:
        report.differ(element.place, "has no filters: left out")
        return None
    rule: Rule = {"filters": list(dict.fromkeys(filters))}
    report.map(element.place, f"{key}.filters")
    destination = element.one("destination")
    if destination is not None and destination.text not in ("", "{#}"):
        rule["destination"] = destination.text
        report.map(destination.place, f"{key}.destination")
    _max_qos(element, rule, key, report)
    Taking(element, rule, key, report)("preserve-retain", "preserveRetain", as_yes)
    _user_properties(element.one("custom-user-properties"), rule, key, report)
    excludes = element.one("excludes")
    if excludes is not None and (found := _texts(excludes, "mqtt-topic-filter")):
        rule["excludes"] = found
        report.map(excludes.place, f"{key}.excludes")
    _queue_limit(element, rule, key, limit, report)
    if any(intersect(one, other) for one, other in combinations(filter(valid_filter, rule["filters"]), 2)):
        report.differ(element.place, "filters overlap: a message that matches several comes once for each there, once here")
    return rule


def _texts(element: Element | None, name: str) -> list[str]:
    return [each.text for each in element.all(name) if each.text] if element is not None else []


def _max_qos(element: Element, rule: Rule, key: str, report: Report) -> None:
    if Taking(element, rule, key, report)("max-qos", "maxQoS", as_number) is None:
        rule["maxQoS"] = 0
        report.differ(element.place, "no max-qos means QoS 0 there, whatever its documentation says: written as maxQoS: 0")


def _user_properties(element: Element | None, rule: Rule, key: str, report: Report) -> None:
    if element is None:
        return
    found = []
    for each in element.all("user-property"):
        name, value = each.one("key"), each.one("value")
        if name is None or value is None or not name.text or not value.text:
            report.differ(each.place, "lacks its key or its value: left out, as there")
        else:
            found.append({"key": name.text, "value": value.text})
    rule["customUserProperties"] = found
    report.map(element.place, f"{key}.customUserProperties")


def _queue_limit(element: Element, rule: Rule, key: str, usual: int | None, report: Report) -> None:
    """A limit is for each filter there, for the whole rule here."""
    given, filters = element.one("queue-limit"), len(rule["filters"])
    limit: int | str | None = usual if filters > 1 and element.name == "forwarded-topic" else None
    if given is not None:
        limit = as_number(given.text, given.place)
        report.map(given.place, f"{key}.queueLimit")
    if isinstance(limit, int) and limit < 1:
        report.differ(element.place, "a queue-limit below 1 is left out: the node's own bound counts")
    elif isinstance(limit, int):
        rule["queueLimit"] = limit * filters
        if filters > 1:
            report.differ(element.place, f"{limit} for each of {filters} filters there, {limit * filters} for all of them here")
    elif limit is not None:
        rule["queueLimit"] = limit
        if filters > 1:
            report.differ(element.place, "the queue-limit is for each filter there, for all of them here")
