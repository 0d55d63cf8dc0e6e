"""Makes a sound store of a damaged one: everything that can still be read goes to a new directory, the old one is set aside.

Nothing is guessed. A row counts as lost where its index entry is there and its batch is not; where neither can be read, the
place is reported as of unknown extent. What is kept keeps its numbers; new ones begin above all that were seen, under a new
incarnation, for a number above them may have been given and lost. Where a record of the log is lost and later ones are not, an
acknowledgement or a step of ``consumed`` may be undone: such rows go out once more, they are never left out.

The old directory is only read, through hard links; the new one takes its place when it is whole. A crash in between is
repaired by ``finish``: a new directory without an old one beside it is whole.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rocksdict import DBRecoveryMode, Rdict, WriteBatch

from bridgehead.clock import utc_stamp
from bridgehead.errors import DamageError, StartError, StorageError
from bridgehead.storage import frontlog
from bridgehead.storage.diskpath import sync
from bridgehead.storage.donenotes import done_notes, noted_shelf
from bridgehead.storage.engine import CEILING, HALF_WAY, Shape, Shelf
from bridgehead.storage.journal import JOURNAL, consumed_name
from bridgehead.storage.keys import Kind, number_of, numbered_key, shelf_key, shelf_of
from bridgehead.storage.losses import Loss, Losses
from bridgehead.storage.meta import FORMAT_KEY, check_format, front_of, write_meta
from bridgehead.storage.opening import gap_behind_tables, options, rdict
from bridgehead.storage.scanning import scan_past_damage
from bridgehead.storage.segments import CEILING_BLOCK
from bridgehead.storage.values import (
    is_sound,
    pack_note,
    pack_shape,
    pack_state,
    shape_of_batch,
    unpack_note,
    unpack_shape,
    unpack_state,
)

log = logging.getLogger(__name__)


def salvage(directory: Path, why: str, *, unknown: bool, in_front: bool = False) -> None:
    """Put a sound store in the place of this one.

    ``unknown``: it cannot be told what is missing from what is there; ``in_front``: unless the front log, where it is, tells.
    """
    log.error("%s is damaged: %s", directory, why)
    _must_have_room(directory)
    scratch, fresh = directory.with_name(f"{directory.name}.scratch"), _fresh(directory)
    for left in (scratch, fresh):
        shutil.rmtree(left, ignore_errors=True)
    set_aside = directory.with_name(f"{directory.name}.damaged-{utc_stamp()}")
    try:
        _link(directory, scratch)
        source = _open_damaged(scratch, directory)
        try:
            place = _place(source)
            frontlog.replay(source, frontlog.read_past_damage(scratch, place))
            unknown = unknown and not (in_front and frontlog.tells_what_is_lost(scratch, place))
            losses = _Copy(source, fresh, directory).run(set_aside.name, [Loss((), 0, None, why)] if unknown else [])
        finally:
            source.close()
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, StartError) or not isinstance(error, Exception):
            raise
        raise StartError(f"{directory} is damaged and could not be repaired: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for loss in losses:
        log.error("lost by damage: %s", loss)
    report = {"directory": set_aside.name, "why": why, "losses": [loss.as_json() for loss in losses]}
    set_aside.with_name(f"{set_aside.name}.json").write_text(json.dumps(report, indent=1) + "\n")
    directory.rename(set_aside)
    finish(directory)
    log.error("all that could be read is kept; the damaged store is set aside as %s", set_aside)


def finish(directory: Path) -> None:
    """Let the new directory take its place, now or after a crash that came between."""
    fresh = _fresh(directory)
    if fresh.exists() and not directory.exists():
        fresh.rename(directory)
        sync(directory.parent)


def _fresh(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.salvaged")


def _must_have_room(directory: Path) -> None:
    taken = (".sst", ".log", "")  # the last one: the front log
    needed = sum(path.stat().st_size for path in directory.iterdir() if path.suffix in taken)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StartError(f"{directory} is damaged, and a repair needs {needed >> 20} MiB of disk: {free >> 20} MiB are free")


def _link(directory: Path, scratch: Path) -> None:
    """The same files under other names: tables are never written again, the small rest and the logs are copied."""
    scratch.mkdir()
    for path in directory.iterdir():
        to = scratch / path.name
        if path.suffix == ".sst":
            try:
                os.link(path, to)
            except OSError:  # a file system without hard links
                shutil.copyfile(path, to)
        elif path.is_file() and path.name != "LOCK" and not path.name.startswith("LOG"):
            shutil.copy2(path, to)  # with its time, which tells the lives of the front log apart


def _open_damaged(scratch: Path, directory: Path) -> Rdict:
    """With its own manifest if that fits what is there; else with one that RocksDB makes anew from tables and logs."""
    skipping = DBRecoveryMode.skip_any_corrupted_record()
    try:
        if gap_behind_tables(scratch) is None:
            return rdict(scratch, options(skipping))
    except Exception as error:
        log.info("the manifest is of no use: %s", error)
    try:
        Rdict.repair(str(scratch), options(skipping))
        return rdict(scratch, options(skipping))
    except Exception as error:
        raise StartError(f"{directory} is damaged and cannot be repaired: {error}") from None


def _place(source: Rdict) -> tuple[int, int] | None:
    try:
        return front_of(source)
    except StorageError as error:
        log.warning("where the front log begins cannot be read: %s", error)
        return None


class _Copy:
    """One pass from a damaged store to a new one."""

    def __init__(self, source: Rdict, fresh: Path, directory: Path) -> None:
        self._source = source
        self._fresh = fresh
        self._directory = directory
        self._bad: dict[Kind, list[Shelf]] = {kind: [] for kind in Kind}  # places that cannot be read
        self._index: dict[tuple[Shelf, int], Shape] = {}
        self._notes: dict[tuple[Shelf, int], int] = {}
        self._states: dict[Shelf, Any] = {}
        self._ends: dict[Shelf, int] = {}  # above every number seen
        self._losses: list[Loss] = []

    def run(self, set_aside: str, losses: list[Loss]) -> list[Loss]:
        self._losses = list(losses)
        self._read_small()
        target = rdict(self._fresh, options(create=True))
        try:
            write_meta(target, secrets.token_hex(8))
            batches = self._copy_batches(target)
            if not batches and not self._states and self._is_foreign():
                raise StartError(f"{self._directory} is damaged, and nothing in it is of a format that this version knows")
            self._copy_small(target, set_aside)
            target.flush()
        finally:
            target.close()
        return self._losses

    def _is_foreign(self) -> bool:
        """Something can be read, and nothing of it is ours. Where nothing can be read at all, there is nothing to protect."""
        if any(key == FORMAT_KEY for key, _ in scan_past_damage(self._source, FORMAT_KEY, _pass_by)):
            return False
        return next(scan_past_damage(self._source, b"", _pass_by), None) is not None

    def _read_small(self) -> None:
        try:
            check_format(self._source.get(FORMAT_KEY), self._directory)
        except (StartError, DamageError):
            raise
        except Exception as error:
            log.warning("the format cannot be read, every value is judged by itself: %s", error)
        for key, value in self._sound(Kind.INDEX):
            self._index[shelf_of(key), number_of(key)] = unpack_shape(key, value, "an index entry")
        for key, value in self._sound(Kind.NOTE):
            self._notes[shelf_of(key), number_of(key)] = unpack_note(key, value)
        for key, value in self._sound(Kind.STATE):
            self._states[shelf_of(key)] = unpack_state(key, value)
        if self._bad[Kind.NOTE]:
            log.error("acknowledgements are lost by damage: what they were for may be sent again")
        self._losses += [Loss((), 0, None, "states cannot be read") for _ in self._bad[Kind.STATE]]

    def _sound(self, kind: Kind) -> Iterator[tuple[bytes, bytes]]:
        def on_bad(last: bytes, following: bytes | None) -> None:
            self._saw_bad(kind, last, following)

        for key, value in scan_past_damage(self._source, kind.value, on_bad):
            if is_sound(key, value):
                yield key, value
            else:
                self._bad[kind].append(shelf_of(key))

    def _saw_bad(self, kind: Kind, last: bytes, following: bytes | None) -> None:
        """A place that cannot be read lies in one shelf if what is before and behind it does."""
        same = following is not None and len(last) > 1 and shelf_of(last) == shelf_of(following) and last[:1] == following[:1]
        self._bad[kind].append(shelf_of(last) if same else ())

    def _copy_batches(self, target: Rdict) -> int:
        """In the order of the keys. What the walk has to pass by may still be asked for by its name."""
        copied = 0
        named = sorted((numbered_key(Kind.BATCH, shelf, number) for shelf, number in self._index), reverse=True)
        for key, value in self._sound(Kind.BATCH):
            while named and named[-1] < key:
                copied += self._copy_named(target, named.pop())
            if named and named[-1] == key:
                named.pop()
            copied += self._copy_batch(target, key, value)
        while named:
            copied += self._copy_named(target, named.pop())
        if self._bad[Kind.INDEX]:
            self._losses += [Loss(shelf, 0, None, "neither batches nor index can be read") for shelf in self._bad[Kind.BATCH]]
        return copied

    def _copy_named(self, target: Rdict, key: bytes) -> int:
        try:
            value: bytes = self._source.get(key) or b""
            why = "its batch is damaged" if value else "its batch is missing"
        except Exception as error:
            value, why = b"", str(error)
        if is_sound(key, value):
            return self._copy_batch(target, key, value)
        self._lose(shelf_of(key), number_of(key), why)
        return 0

    def _copy_batch(self, target: Rdict, key: bytes, value: bytes) -> int:
        shelf, number = shelf_of(key), number_of(key)
        shape = self._index.get((shelf, number)) or shape_of_batch(key, value)
        if number < self._ends.get(shelf, 0):
            return 0  # a copy from before a merge: these rows are in the batch before
        self._ends[shelf] = number + shape.rows
        entry = numbered_key(Kind.INDEX, shelf, number)
        batch = WriteBatch(raw_mode=True)
        batch.put(key, value)
        batch.put(entry, pack_shape(entry, shape))
        target.write(batch)
        return 1

    def _lose(self, shelf: Shelf, number: int, why: str) -> None:
        """Only what still counted is lost: not what was done or replaced, nor what is in an outbox already."""
        shape = self._index[shelf, number]
        there = np.ones(shape.rows, np.bool_) if shape.present is None else shape.present.copy()
        if shelf[0] == JOURNAL:
            there[: max(int(self._states.get(consumed_name(shelf[1]), 0)) - number, 0)] = False
        for (where, first), rows in self._notes.items():
            if where in (done_notes(shelf), shelf) and number <= first < number + shape.rows:
                there[first - number : first - number + rows] = False
        self._ends[shelf] = max(self._ends.get(shelf, 0), number + shape.rows)
        self._losses.append(Loss(shelf, number, int(np.count_nonzero(there)), why))

    def _copy_small(self, target: Rdict, set_aside: str) -> None:
        batch = WriteBatch(raw_mode=True)
        for (shelf, first), rows in self._notes.items():
            key = numbered_key(Kind.NOTE, shelf, first)
            batch.put(key, pack_note(key, rows))
            queue = noted_shelf(shelf)
            if queue is not None:
                self._ends[queue] = max(self._ends.get(queue, 0), first + rows)
        if any(loss.rows is None for loss in self._losses):
            self._states = {name: state for name, state in self._states.items() if not name or name[0] not in HALF_WAY}
        for shelf, end in self._ends.items():
            name: Shelf = (CEILING, *shelf)
            self._states[name] = max(self._states.get(name) or 0, end)
        for name in self._states:
            if name[:1] == (CEILING,):
                self._states[name] += CEILING_BLOCK
        sums = Losses(self._states)
        sums.add(self._losses, set_aside)
        self._states.update(sums.states())
        for shelf, state in self._states.items():
            key = shelf_key(Kind.STATE, shelf)
            batch.put(key, pack_state(key, state))
        target.write(batch)


def _pass_by(last: bytes, following: bytes | None) -> None:
    """A place that cannot be read, and is told elsewhere."""
