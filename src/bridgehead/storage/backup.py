"""Backups: a copy of the store at one moment, taken while the node runs, and the way back.

A backup is a directory: ``store/`` and ``backup.json``, which says of whom it is, of when, in which format, and the checksum of
each file. It appears under its name when it is whole. What comes back is an older state, so numbers given since must not be
given again, and what peers and we had agreed on half-way is void: the restored store begins a new incarnation above every
number it knows, without the packet ids of QoS 2.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rocksdict import WriteBatch

from bridgehead.clock import utc_stamp
from bridgehead.errors import CommandError, StorageError
from bridgehead.storage.diskpath import sync
from bridgehead.storage.engine import CEILING, HALF_WAY
from bridgehead.storage.keys import Kind, shelf_of
from bridgehead.storage.lock import StoreLock
from bridgehead.storage.meta import FRONT_KEY, write_meta
from bridgehead.storage.opening import open_sound
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.scanning import inspect, scan
from bridgehead.storage.segments import CEILING_BLOCK
from bridgehead.storage.values import FORMAT, pack_state, unpack_state

MANIFEST: Final = "backup.json"
STORE: Final = "store"
_CHUNK: Final = 1 << 20


async def back_up(engine: RocksEngine, destination: Path, node: str) -> dict[str, Any]:
    """Copy the store as it is now to a directory that must not exist; returns what ``backup.json`` says.

    Only the moment itself is taken in the event loop, the copy is made beside it.
    """
    _must_be_new(destination)
    about = {"format": FORMAT, "node": node, "incarnation": engine.incarnation, "taken": utc_stamp()}
    try:
        with engine.checkpoint() as moment:
            return await asyncio.to_thread(_copy_moment, moment, destination, about)
    except OSError as error:
        raise CommandError(f"the backup to {destination} failed: {error.strerror or error}") from error
    except StorageError as error:
        raise CommandError(f"the backup to {destination} failed: {error}") from error


def _must_be_new(destination: Path) -> None:
    if destination.exists():
        raise CommandError(f"{destination} exists already")
    if not destination.parent.is_dir():
        raise CommandError(f"{destination.parent} is not a directory")


def _copy_moment(moment: Path, destination: Path, about: dict[str, Any]) -> dict[str, Any]:
    partial = destination.with_name(f"{destination.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir()
        manifest = {**about, "files": {path.name: _copy(path, partial / STORE / path.name) for path in _files(moment)}}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        sync(partial)
        partial.rename(destination)
        sync(destination.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def restore_backup(source: Path, directory: Path, *, replace: bool) -> dict[str, Any]:
    """Put the store of a backup in the place of ours, which must not be in use; returns what its ``backup.json`` says."""
    manifest = _manifest(source)
    lock = StoreLock(directory)
    restoring = directory.with_name(f"{directory.name}.restoring")
    try:
        if _is_used(directory) and not replace:
            raise CommandError(f"{directory} holds a store already: with --replace it is set aside")
        shutil.rmtree(restoring, ignore_errors=True)
        for name, expected in manifest["files"].items():
            if _copy(source / STORE / name, restoring / name) != expected:
                raise CommandError(f"{source / STORE / name} is damaged: its checksum does not fit")
        _begin_anew(restoring)
        if directory.exists():
            directory.rename(directory.with_name(f"{directory.name}.replaced-{utc_stamp()}"))
        restoring.rename(directory)
        sync(directory.parent)
    except OSError as error:
        raise CommandError(f"{source} cannot be restored: {error.strerror or error}") from error
    except StorageError as error:
        raise CommandError(f"{source} cannot be restored: {error}") from error
    finally:
        shutil.rmtree(restoring, ignore_errors=True)
        lock.release()
    return manifest


def _begin_anew(directory: Path) -> None:
    db = open_sound(directory)
    try:
        inspect(db)
        changes = WriteBatch(raw_mode=True)
        for key, value in scan(db, Kind.STATE.value):
            name = shelf_of(key)
            if name[:1] == (CEILING,):
                changes.put(key, pack_state(key, unpack_state(key, value) + CEILING_BLOCK))
            elif name and name[0] in HALF_WAY:
                changes.delete(key)
        changes.delete(FRONT_KEY)  # everything was in the tables in that moment
        db.write(changes)
        write_meta(db, secrets.token_hex(8))
    finally:
        db.close()


def _manifest(source: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((source / MANIFEST).read_text())
        version, files = found["format"], found["files"]
        plain = all(Path(name).name == name for name in files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CommandError(f"{source} is not a backup: it has no {MANIFEST} that can be read") from None
    if version != FORMAT:
        raise CommandError(f"{source} has the format {version}, this version knows only {FORMAT}")
    if not plain:
        raise CommandError(f"{source} is not a backup: its {MANIFEST} names files elsewhere")
    missing = [name for name in files if not (source / STORE / name).is_file()]
    if missing:
        raise CommandError(f"{source} is not whole: {', '.join(missing)} missing")
    return found


def _is_used(directory: Path) -> bool:
    return directory.exists() and next(directory.iterdir(), None) is not None


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.iterdir()) if path.is_file() and path.name not in ("LOCK", "LOG"))


def _copy(path: Path, to: Path) -> dict[str, Any]:
    """Copy and sync a file; its size and checksum on the way."""
    to.parent.mkdir(exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source, to.open("wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
            size += len(chunk)
        target.flush()
        os.fsync(target.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}
