"""``bridgehead backup`` and ``bridgehead restore``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from bridgehead.commands.nodeapi import NodeApi
from bridgehead.errors import CommandError, NotRunningError, StartError
from bridgehead.settings.model import Settings

PATIENCE: Final = 3600.0
"""Seconds that a node may take to copy its store."""


def back_up(settings: Settings, destination: Path) -> str:
    """Through the node while it runs; from its directory while it does not. Returns what to tell the user."""
    store = _store(settings)
    destination = destination.absolute()
    try:
        manifest = NodeApi(settings).post("/api/v1/backup", {"destination": str(destination)}, within=PATIENCE)
    except NotRunningError:
        if not store.exists():
            raise CommandError(f"{store} does not exist: there is nothing to back up") from None
        manifest = _of_stopped(settings, store, destination)
    return f"{destination}: {_described(manifest)}"


def _of_stopped(settings: Settings, store: Path, destination: Path) -> dict[str, Any]:
    from bridgehead.storage.backup import back_up
    from bridgehead.storage.rocks import RocksEngine

    try:
        engine = RocksEngine(store)
    except StartError as error:
        raise CommandError(str(error)) from error
    try:
        return asyncio.run(back_up(engine, destination, settings.node))
    finally:
        engine.close()


def restore(settings: Settings, source: Path, *, replace: bool) -> str:
    """Returns what to tell the user."""
    from bridgehead.storage.backup import restore_backup

    store = _store(settings)
    try:
        manifest = restore_backup(source.absolute(), store, replace=replace)
    except StartError as error:
        raise CommandError(f"{error}: stop it first") from error
    return f"{store}: {_described(manifest)}"


def _store(settings: Settings) -> Path:
    if settings.persistence.mode != "file-native":
        raise CommandError("persistence.mode is in-memory: nothing is on the disk")
    return Path(settings.data_dir) / "store"


def _described(manifest: dict[str, Any]) -> str:
    size = sum(each["bytes"] for each in manifest["files"].values())
    return f"node {manifest['node']} as of {manifest['taken']}, {len(manifest['files'])} files, {size:,} bytes"
