"""The driver's side of an archive: what becomes of pending files.

Around each batch: ``prepare`` gives its files their places and makes the directories; the commit at the node carries
that list; ``publish`` renames them; ``sweep`` removes what is left, be it all, of a batch that was committed before. Before
the first batch, and after every failure, ``recover`` brings the disk to where the last commit is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bridgehead.errors import ArchiveError
from bridgehead.failpoints import passing
from bridgehead.pipeline.archive import files
from bridgehead.pipeline.archive.layout import MERGING, PENDING, key_of, visible_name
from bridgehead.pipeline.archive.spec import ArchiveSpec, PendingFile, Published


class ArchiveDesk:
    """One archive, in the hands of one driver at a time: the node's epoch says whose."""

    def __init__(self, spec: ArchiveSpec, life: str) -> None:
        self.spec = spec
        self._life = life
        self._root = Path(spec.path)
        self._pending = self._root / PENDING / key_of(spec)
        self._version = 0  # of the last commit
        self.on_published: Callable[[set[str]], None] = lambda directories: None  # these have got files

    def recover(self, committed: Published | None, confirm: Callable[[], object]) -> None:
        """Publish what the last commit names, remove what no commit does.

        ``confirm`` raises if another driver has taken over. It is asked between looking and removing: a pending file that was
        seen before its answer is not of a later driver.
        """
        try:
            files.make_directory(self._pending)
            found = self._files()
            confirm()
            if committed is not None:
                self._version = committed.version
                self.publish(committed)
            for name in found:
                files.remove(self._pending / name)
        except OSError as error:
            raise self._failure(error) from error

    def sweep(self, confirm: Callable[[], object]) -> None:
        """Behind a batch: what is pending now was left by attempts that failed, or that nobody waited for."""
        try:
            found = [name for name in self._files() if not name.startswith(MERGING)]
            if found:
                confirm()
            for name in found:
                files.remove(self._pending / name)
        except OSError as error:
            raise self._failure(error) from error

    def _files(self) -> list[str]:
        with os.scandir(self._pending) as entries:
            return [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]

    def prepare(self, pending: Sequence[PendingFile], start: int, end: int) -> Published:
        """The places of a batch's files, which the commit makes final. After it nothing is left to do but rename."""
        version = self._version + 1
        key, own = key_of(self.spec), self._pending.relative_to(self._root)
        found = []
        for each in pending:
            name = visible_name(key, self._life, start, end, version, each.partition, each.number)
            found.append((str(own / each.name), os.path.join(each.directory, name)))
        try:
            for directory in {each.directory for each in pending}:
                files.make_directory(self._root / directory)
        except OSError as error:
            raise self._failure(error) from error
        self._version = version
        return Published(self.spec.path, tuple(found), version)

    def publish(self, committed: Published) -> None:
        """Every file that the commit names is in its place, for good. What is no longer pending was put there before."""
        if not committed.files:
            return
        root = Path(committed.path)  # where they were written: the archive may have moved since
        try:
            places = {root / visible: root / pending for pending, visible in committed.files}
            with files.in_archive(root):
                for visible, pending in places.items():
                    files.make_directory(visible.parent)
                    if pending.exists():
                        files.move(pending, visible)
                        passing("driver.renamed")
                for directory in {visible.parent for visible in places}:
                    files.sync(directory)
        except OSError as error:
            raise self._failure(error) from error
        passing("driver.published")
        self.on_published({os.path.dirname(visible) for _, visible in committed.files})

    def _failure(self, error: OSError) -> ArchiveError:
        return ArchiveError(f"the archive {self.spec.path} cannot be written: {error}")
