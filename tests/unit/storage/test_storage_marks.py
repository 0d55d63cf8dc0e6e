"""Marks, notes and segments: what a queue of many batches knows of itself without looking at each of them."""

from __future__ import annotations

import numpy as np

from bridgehead.storage.donenotes import DoneNotes, done_notes, noted_shelf
from bridgehead.storage.engine import Changes
from bridgehead.storage.marks import DONE, MARKED, WAITING, Marks
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.segments import SMALL_ROWS, Segments
from making.rows import numbered, outbox_rows

SHELF = ("outbox", "r")


def segments_of(engine: MemoryEngine, count: int) -> Segments:
    """So many batches of SMALL_ROWS rows: none of them is merged."""
    segments, changes = Segments(engine, SHELF), Changes()
    for index in range(count):
        segments.append(changes, index * SMALL_ROWS, outbox_rows(*numbered(0, SMALL_ROWS)), 6400)
    engine.write(changes)
    return segments


def test_segments_are_found_by_number_while_the_first_ones_and_others_leave() -> None:
    segments, changes = segments_of(MemoryEngine(), 10), Changes()
    left = list(range(10))
    for index in (0, 0, 3, 0, 0, 0, 2, 0, 0, 0):
        segments.drop(changes, index)
        del left[index]
        assert [segment.start // SMALL_ROWS for segment in segments] == left
        assert (len(segments), segments.rows, segments.weight) == (len(left), len(left) * SMALL_ROWS, len(left) * 6400)
        for place, number in enumerate(left):
            assert segments.index_of(number * SMALL_ROWS + 5) == place
        assert segments.index_of(10 * SMALL_ROWS) == len(left)
        assert segments.index_of(0) == 0


def test_what_is_done_is_counted_once_and_leaves_the_count_with_its_segment() -> None:
    segments, marks = segments_of(MemoryEngine(), 2), Marks()
    first, second = segments
    some = np.arange(16)
    assert len(marks.move(first, some, WAITING, MARKED)) == 16
    assert len(marks.move(first, some[:4], MARKED, DONE)) == 4
    assert len(marks.move(first, some[:8], MARKED, DONE)) == 4
    assert len(marks.move(second, some, MARKED, DONE)) == 0
    assert (marks.done, marks.done_weight, marks.marked) == (8, 800, 8)
    assert marks.here(first).tolist() == list(range(8, SMALL_ROWS))
    assert not marks.all_done(first)
    marks.move(first, np.arange(SMALL_ROWS), WAITING, DONE)
    marks.move(first, np.arange(SMALL_ROWS), MARKED, DONE)
    assert marks.all_done(first)
    marks.forget(first)
    assert (marks.done, marks.done_weight) == (0, 0)


def test_notes_of_done_rows_are_recalled_by_segment_and_those_without_a_batch_go() -> None:
    engine = MemoryEngine()
    segments, changes = segments_of(engine, 2), Changes()
    DoneNotes(engine, SHELF).note(changes, segments[1], np.array([1, 2, 3, 7]))
    changes.notes.append((done_notes(SHELF), 5000, 3))
    engine.write(changes)
    notes, cleaning = DoneNotes(engine, SHELF), Changes()
    found = [(segment.start, places.tolist()) for segment, places in notes.recall(cleaning, segments)]
    assert found == [(SMALL_ROWS, [1, 2, 3]), (SMALL_ROWS, [7])]
    assert cleaning.notes == [(done_notes(SHELF), 5000, None)]
    leaving = Changes()
    notes.leave(leaving, segments[1])
    assert [number for _, number, _ in leaving.notes] == [SMALL_ROWS + 1, SMALL_ROWS + 7]


def test_it_can_be_told_whose_notes_they_are() -> None:
    for shelf in (SHELF, ("queue", "a client"), ("dead", "r")):
        assert noted_shelf(done_notes(shelf)) == shelf
    assert noted_shelf(("retained",)) is None
