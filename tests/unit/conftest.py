"""What tests of several parts need: the scripted remote of a bridge."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from making.remote import Remote


@pytest.fixture
async def remote() -> AsyncIterator[Remote]:
    remote = await Remote().start()
    yield remote
    await remote.stop()
