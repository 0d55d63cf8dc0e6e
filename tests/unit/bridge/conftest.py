"""Spans towards a scripted remote that are stopped at the end of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from making.remote import Remote
from making.span import Span


@pytest.fixture
async def span(remote: Remote) -> AsyncIterator[Callable[..., Span]]:
    spans: list[Span] = []

    def make(**given: Any) -> Span:
        remote.version = given.get("version", 5)
        spans.append(Span(remote.port, **given))
        spans[-1].uplink.start()
        return spans[-1]

    yield make
    for one in spans:
        await one.uplink.stop()
