"""What a long-running process of ours spares itself at its start and at its end."""

from __future__ import annotations

import gc
import logging
import os
import sys
from importlib.machinery import ModuleSpec
from typing import NoReturn


class _NoPandas:
    """Finds no pandas, whatever is installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process has no use for pandas", name=name)
        return None


def without_pandas() -> None:
    """pyarrow imports pandas with the first list it makes an array of: a third of a second and 30 MiB that nothing uses."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


def hold_collector() -> None:
    """While a process comes to life nothing is garbage, and looking for some takes an eighth of the start of a node."""
    gc.disable()


def release_collector() -> None:
    """The process is alive: what is there by now stays, and is never looked through again."""
    gc.freeze()
    gc.enable()


def end(status: int) -> NoReturn:
    """End at once: everything is closed, and taking a dead process apart object by object takes longer than stopping did."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def end_without_storage(error: BaseException) -> NoReturn:
    """The disk has failed: what this process knows and what the next one will find are no longer the same. Whatever it still
    said, to whomever, might not be true any more, so it says nothing: a death is what every promise survives."""
    sys.stderr.write(f"bridgehead: storage failed: {error}\n")
    end(1)
