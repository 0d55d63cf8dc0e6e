"""A bridge as the API takes and gives it: complete, and without its secrets.

No secret is ever given: one that is written as a placeholder is shown as that, any other as ``SECRET``. Who sends that back
wants it to stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr

from bridgehead.node.theirnames import SECRET, place_in, with_our_names, with_their_names
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.environment import fill_in
from bridgehead.settings.overlay import Raw


def shown(bridge: Bridge, written: Raw) -> Raw:
    """All that is known of a bridge: its defaults, and what somebody has written, as it was written."""
    whole: Raw = _merged(bridge.model_dump(mode="json", by_alias=True), written)
    if whole["hosts"] is not None:
        del whole["port"]  # each of them has its own
    for place in _secrets(Bridge):
        _replace(whole, place, lambda value: value if value is None or _is_placeholder(value) else SECRET)
    return with_their_names(whole)


def taken(body: Mapping[str, Any], present: Raw | None) -> tuple[Raw, list[tuple[str, str]]]:
    """What a client has sent, as the file would say it, and the faults that nobody finds in that any more.

    Secrets that it leaves as they were shown are those of ``present``.
    """
    document, faults = with_our_names({key: value for key, value in _given(body).items() if key != "status"})
    if document.get("loopPreventionHopCount") == 0:
        del document["loopPreventionHopCount"]  # the original's word for none given
    for rules in ("localSubscriptions", "remoteSubscriptions"):
        if isinstance(document.get(rules), list):
            document[rules] = [_given(rule) if isinstance(rule, dict) else rule for rule in document[rules]]
    for place in _secrets(Bridge):
        before = _found(present or {}, place)
        if before is not None:
            _replace(document, place, lambda value, kept=before: kept if value == SECRET else value)
        elif _found(document, place) == SECRET:
            unknown = f"{SECRET} stands for a secret that is not known here: give the secret itself"
            faults.append((place_in(body, ".".join(place)), unknown))
    return document, faults


def _given(part: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is null, or a name that is empty: that says as much as nothing."""
    return {key: value for key, value in part.items() if value is not None and not (key in _NAMES and value == "")}


_NAMES: Final = ("clientId", "destination")
"""Clients of the original send them empty for the default."""


def _secrets(model: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of secrets: keys, and ``*`` for each entry of a list."""
    for name, field in model.model_fields.items():
        here = (*place, field.alias or name)
        for annotation, inside in _types(field.annotation, here):
            if annotation is SecretStr:
                yield inside
            elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _secrets(annotation, inside)


def _types(annotation: Any, place: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    inner = get_args(annotation)
    if not inner:
        yield annotation, place
    listed = getattr(annotation, "__origin__", None) in (tuple, list)
    for each in inner:
        yield from _types(each, (*place, "*") if listed else place)


def _replace(value: Any, place: tuple[str, ...], change: Any) -> None:
    if not place:
        return
    first, *rest = place
    if first == "*":
        for each in value if isinstance(value, list) else ():
            _replace(each, tuple(rest), change)
    elif isinstance(value, dict) and first in value:
        if rest:
            _replace(value[first], tuple(rest), change)
        else:
            value[first] = change(value[first])


def _found(value: Any, place: tuple[str, ...]) -> Any:
    for step in place:
        if not isinstance(value, dict):
            return None  # of a list nobody could say which entry is meant
        value = value.get(step)
    return value


def _is_placeholder(value: Any) -> bool:
    """Whether all of the value is a placeholder: what stands beside one may be a secret."""
    return isinstance(value, str) and value.startswith("${ENV:") and fill_in(value, _Nothing())[0] == ""


class _Nothing(dict[str, str]):
    """An environment in which every variable is empty."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return ""


def _merged(whole: Any, written: Any) -> Any:
    """What is written, with what was left out."""
    if isinstance(whole, dict) and isinstance(written, dict):
        return {key: _merged(value, written[key]) if key in written else value for key, value in whole.items()}
    if isinstance(whole, list) and isinstance(written, list) and len(whole) == len(written):
        return [_merged(*pair) for pair in zip(whole, written, strict=True)]
    return written
