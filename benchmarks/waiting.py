"""How many messages are on their way while a run lasts: where a system cannot keep up, they become more and more."""

import statistics
import threading
import time

from benchmarks.board import Board, Slot

LOOK_SECONDS = 0.05


class Waiting:
    """Looks at the board while the `with` block runs; ``seconds`` is how long messages are sent."""

    def __init__(self, board: Board, seconds: float) -> None:
        self._board = board
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="waiting", daemon=True)
        self._looks: list[tuple[float, int]] = []   # (seconds since the first message, messages on their way)

    def early(self) -> float:
        return self._between(0.0, self._seconds / 3)

    def late(self) -> float:
        return self._between(self._seconds * 2 / 3, self._seconds)

    def _between(self, since: float, until: float) -> float:
        return statistics.median([waiting for when, waiting in self._looks if since <= when < until] or [0])

    def _look(self) -> None:
        began = 0.0
        while not self._over.wait(LOOK_SECONDS):
            sent = self._board.get(Slot.SENT)
            began = began or (time.monotonic() if sent else 0.0)
            if began:
                self._looks.append((time.monotonic() - began, sent - self._board.get(Slot.ARRIVED)))

    def __enter__(self) -> "Waiting":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
