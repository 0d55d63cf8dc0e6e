"""Compiled code that is kept on the disk: found again, and never in the way when it is torn."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

KERNEL = """
from bridgehead.columns.kernels_jit import kernel

@kernel
def doubled(number):
    return 2 * number
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[], ModuleType]:
    """A module with a kernel, as a new process would load it."""
    path = tmp_path / "doubling.py"
    path.write_text(KERNEL)

    def fresh() -> ModuleType:
        spec = importlib.util.spec_from_file_location("doubling", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return fresh


def compiled(module: ModuleType) -> int:
    """How often it had to be compiled."""
    assert module.doubled(21) == 42
    return sum(module.doubled.stats.cache_misses.values())


def test_what_was_compiled_once_is_loaded_from_then_on(load: Callable[[], ModuleType]) -> None:
    assert [compiled(load()), compiled(load())] == [1, 0]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 20])
def test_a_torn_file_costs_no_more_than_compiling_again(
    load: Callable[[], ModuleType], tmp_path: Path, kind: str, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(load())
    [file] = tmp_path.glob(f"**/*.{kind}")
    file.write_bytes(file.read_bytes()[:left])
    assert [compiled(load()), compiled(load())] == [1, 0]
    assert "compiled again" in caplog.text


def test_a_disk_without_room_costs_no_more_than_compiling_the_next_time(
    load: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    assert compiled(load()) == 1
    assert "No space left" in caplog.text
    monkeypatch.undo()
    assert [compiled(load()), compiled(load())] == [1, 0]
