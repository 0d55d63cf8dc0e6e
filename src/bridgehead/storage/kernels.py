"""The compiled functions of the file-native engine, made ready before the first message comes.

    kernels_sync     syncthread    syncs of files, beside the loop
    kernels_lean     lean          Arrow columns -> few bytes
"""

from __future__ import annotations

from bridgehead.storage import kernels_sync, lean


def warm() -> None:
    """Compile them, or load them from the cache."""
    kernels_sync.warm()
    lean.warm()
