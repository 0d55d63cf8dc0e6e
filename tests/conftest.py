"""What holds for all tests: those that need mosquitto are left out, in one line, where there is none."""

from __future__ import annotations

import os

import pytest

from support import mosquitto

NO_MOSQUITTO = mosquitto.executable() is None
REQUIRED = bool(os.environ.get("BRIDGEHEAD_REQUIRE_MOSQUITTO"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if NO_MOSQUITTO and item.get_closest_marker("mosquitto") is not None:
        (pytest.fail if REQUIRED else pytest.skip)(mosquitto.HOW_TO_GET_IT)
