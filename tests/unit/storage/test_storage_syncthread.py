"""Syncs beside the loop: they end, they tell their errors, and the compiled thread does what a plain one would."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bridgehead.storage import syncthread
from bridgehead.storage.kernels_sync import ERROR, MOST_FILES, NO_FILE, STOP, serve_syncs
from bridgehead.storage.syncthread import SyncThread


def plain_serve_syncs(asked: int, answered: int, numbers: npt.NDArray[np.int64]) -> None:
    """What serve_syncs does, in Python."""
    while os.eventfd_read(asked) and numbers[0] != STOP:
        numbers[ERROR] = 0
        try:
            for file in numbers[:MOST_FILES].tolist():
                if file != NO_FILE:
                    os.fdatasync(file)
        except OSError as error:
            numbers[ERROR] = error.errno or 0
        os.eventfd_write(answered, 1)


@pytest.fixture(params=[serve_syncs, plain_serve_syncs], ids=["compiled", "plain"])
def thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncThread]:
    monkeypatch.setattr(syncthread, "serve_syncs", request.param)
    thread = SyncThread()
    yield thread
    thread.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    files = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("a", "b")]
    yield files
    for file in files:
        os.close(file)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_sync_ends_and_is_heard_of_once(thread: SyncThread, files: list[int], count: int) -> None:
    for _ in range(3):
        for file in files:
            os.write(file, b"something")
        thread.begin(files[:count])
        assert thread.wait() is None
        assert thread.wait() is None, "until somebody has heard of it"
        thread.heard()
        with pytest.raises(BlockingIOError):
            thread.heard()


def test_an_error_of_either_file_is_told_and_does_not_stay(thread: SyncThread, files: list[int]) -> None:
    pipe, other = os.pipe()  # of which there is nothing to sync
    for bad in ([pipe, files[0]], [files[0], pipe]):
        thread.begin(bad)
        error = thread.wait()
        assert error is not None
        assert error.errno == errno.EINVAL
        thread.heard()
        thread.begin(files)
        assert thread.wait() is None
        thread.heard()
    os.close(pipe)
    os.close(other)


def test_nothing_is_left_of_it(files: list[int]) -> None:
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    thread = SyncThread()
    thread.begin(files)
    thread.wait()
    thread.close()
    thread.close()
    SyncThread().close()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (descriptors, threads)


def test_a_thread_that_cannot_be_compiled_is_told_when_a_sync_begins(files: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def torn() -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(syncthread, "warm", torn)
    thread = SyncThread()
    with pytest.raises(EOFError):
        thread.begin(files)
    thread.close()


def test_a_thread_that_ends_is_told_to_whoever_waits_and_when_a_sync_begins(
    files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncthread, "serve_syncs", lambda asked, answered, numbers: os.eventfd_read(asked))
    thread = SyncThread()
    thread.begin(files)
    error = thread.wait()
    assert error is not None
    assert error.errno == errno.EIO
    thread.heard()
    assert thread._thread is not None
    thread._thread.join()
    with pytest.raises(OSError, match="has ended"):
        thread.begin(files)
    thread.close()
