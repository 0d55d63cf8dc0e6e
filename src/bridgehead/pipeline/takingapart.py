"""Which messages of a batch make a transform fail: the batch in halves, and these in halves, until one message fails."""

from __future__ import annotations

from collections.abc import Callable

Fails = Callable[[int, int], bool]
"""Whether the transform fails on the messages of [start, end)."""


def culprits(start: int, end: int, fails: Fails, *, seen: bool = False) -> list[int]:
    """The offsets in [start, end), which fails, of those messages that fail by themselves, in order.

    A try costs a job, and one that fails costs most: if the first half passes, the second is not tried as a whole. ``seen``:
    this very range was tried. Nothing is called a culprit that has not failed alone.
    """
    if end - start <= 1:
        return [start] if end > start and (seen or fails(start, end)) else []
    middle = (start + end) // 2
    if not fails(start, middle):
        return culprits(middle, end, fails)
    found = culprits(start, middle, fails, seen=True)
    return found + culprits(middle, end, fails, seen=True) if fails(middle, end) else found
