"""The example of the contract, word for word: everything in it is known, and only what is still to come is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.errors import SettingsError
from bridgehead.settings import parse

EXAMPLE = (Path(__file__).parent / "contract.yaml").read_text()

STILL_TO_COME = {
    "listeners[1].type",
    "listeners[2].type",
}


def test_the_example_is_refused_only_for_what_is_still_to_come() -> None:
    with pytest.raises(SettingsError) as caught:
        parse(EXAMPLE, {"CLOUD_PASSWORD": "p"})
    assert {path.split(" (line")[0] for path, _ in caught.value.faults} == STILL_TO_COME
    assert all(text.startswith("not supported yet") for _, text in caught.value.faults)


def test_the_example_without_what_is_still_to_come_is_accepted() -> None:
    later = ("{type: tls", "{type: ws")
    now = "\n".join(line for line in EXAMPLE.splitlines() if not line.strip().removeprefix("- ").startswith(later))
    settings = parse(now, {"CLOUD_PASSWORD": "p"})
    [push, pull] = settings.routes()
    assert (settings.node, push.filters, push.destination, push.queue_limit) == (
        "plant-7", ("factory/#",), "cloud/{#}", 100_000,
    )  # fmt: skip
    assert (pull.filters, pull.destination, pull.direction) == (("commands/plant-7/#",), "{#}", "pull")
