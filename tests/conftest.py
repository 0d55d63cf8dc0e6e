"""What holds for all tests: their order, examples without a time limit, and what is left out where there is no mosquitto."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest
from xdist.remote import Producer

from support import lanes, mosquitto

hypothesis.settings.register_profile("a machine may be busy", deadline=None)
hypothesis.settings.load_profile("a machine may be busy")

NO_MOSQUITTO = mosquitto.executable() is None
REQUIRED = bool(os.environ.get("BRIDGEHEAD_REQUIRE_MOSQUITTO"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if NO_MOSQUITTO and item.get_closest_marker("mosquitto") is not None:
        (pytest.fail if REQUIRED else pytest.skip)(mosquitto.HOW_TO_GET_IT)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lanes.rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection_finish(session: pytest.Session) -> Iterator[None]:
    """A worker tells its controller what it has collected: not the items themselves, but their ids with their groups."""
    items = session.items
    if hasattr(session.config, "workerinput"):
        session.items = [lanes.Labelled.of(item) for item in items]
    yield
    session.items = items


@pytest.hookimpl(tryfirst=True)  # before xdist chooses one itself
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> lanes.Lanes:
    config.option.loadscopereorder = False  # the order of the collection is the order we want
    return lanes.Lanes(config, log)
