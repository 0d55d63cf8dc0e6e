"""A broker without listeners: its clients are in the test's hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from making.house import House


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    house.broker.close()
