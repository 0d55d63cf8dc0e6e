"""A thread that syncs files while the event loop goes on, and never needs the interpreter.

A thread of Python that has waited for the disk must then wait for the interpreter, which a busy loop holds: that took longer
than the sync, and the loop had to wait for it in turn. This one is in compiled code from its first breath to its last. It is
asked through one event descriptor, and answers through another one that the loop watches as it does a socket.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
from collections.abc import Sequence

import numpy as np

from bridgehead.storage.kernels_sync import ANSWER, ERROR, MOST_FILES, NO_FILE, PLACES, STOP, serve_syncs, warm


class SyncThread:
    """One sync at a time: whoever began one hears its end before the next begins."""

    def __init__(self) -> None:
        self._asked = os.eventfd(0)
        self.answered = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a sync has ended."""
        self._waiting = select.poll()
        self._waiting.register(self.answered, select.POLLIN)
        self._numbers = np.full(PLACES, NO_FILE, np.int64)
        self._numbers[ANSWER] = 1
        self._thread: threading.Thread | None = None
        self._unheard = False  # a sync was begun, and nobody has heard of its end
        self._closed = False

    def begin(self, files: Sequence[int]) -> None:
        """Sync these files, one after the other. Whatever this raises, no sync has begun."""
        assert len(files) <= MOST_FILES
        assert not self._unheard
        if self._thread is None:  # a store that is only looked at needs none
            self._start()
        elif not self._thread.is_alive():
            raise OSError(errno.EIO, "the thread that syncs has ended")
        self._unheard = True
        for place in range(MOST_FILES):
            self._numbers[place] = files[place] if place < len(files) else NO_FILE
        os.eventfd_write(self._asked, 1)

    def _start(self) -> None:
        warm()  # here, where somebody hears of it if it cannot be compiled or loaded
        thread = threading.Thread(target=self._serve, name="storage-sync", daemon=True)
        thread.start()
        self._thread = thread

    def wait(self) -> OSError | None:
        """The error of the sync that was begun, when it has ended. The descriptor stays readable."""
        self._waiting.poll()
        error = int(self._numbers[ERROR])
        return OSError(error, os.strerror(error)) if error else None

    def heard(self) -> None:
        """The descriptor is not readable any more."""
        os.eventfd_read(self.answered)
        self._unheard = False

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they would interrupt what it waits for
        try:
            serve_syncs(self._asked, self.answered, self._numbers)
        finally:
            if not self._closed:  # whoever waits must hear that nobody syncs any more
                self._numbers[ERROR] = errno.EIO
                os.eventfd_write(self.answered, 1)

    def close(self) -> None:
        """No sync is under way. More than once is as good as once."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._numbers[0] = STOP
            os.eventfd_write(self._asked, 1)
            self._thread.join()
        os.close(self._asked)
        os.close(self.answered)
