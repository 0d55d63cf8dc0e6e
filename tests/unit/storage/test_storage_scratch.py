"""Memory that is used over and over: what is taken is nobody else's until all of it is given back."""

from __future__ import annotations

import numpy as np

from bridgehead.storage.scratch import Scratch


def test_what_is_taken_does_not_overlap_whatever_does_not_fit_included() -> None:
    scratch = Scratch(1000)
    pieces = [scratch.take(size) for size in (1, 100, 5000, 0, 300, 900, 8)]
    for number, piece in enumerate(pieces):
        piece[:] = number
    assert [len(piece) for piece in pieces] == [1, 100, 5000, 0, 300, 900, 8]
    assert all((piece == number).all() for number, piece in enumerate(pieces))


def test_the_same_memory_is_given_again_after_it_was_cleared() -> None:
    scratch = Scratch(1000)
    first = scratch.take(600)
    scratch.clear()
    assert np.shares_memory(first, scratch.take(600))
