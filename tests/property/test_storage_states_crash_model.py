"""Small states and notes, killed at any moment: each write is there whole or not at all, and nothing else is."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from bridgehead.storage.engine import Changes, Shelf
from making.lives import Lives

names = st.lists(st.sampled_from(["a", "ab", "b", "", "a/b", "é", "\x00"]), min_size=1, max_size=3).map(tuple)
values = st.one_of(
    st.binary(max_size=40), st.integers(), st.text(max_size=5), st.booleans(), st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)  # fmt: skip
numbers = st.integers(0, 2**40)


class StateLives(Lives):
    def begin(self) -> None:
        self.states: dict[Shelf, Any] = {}
        self.notes: dict[tuple[Shelf, int], int] = {}

    def found_again(self) -> None:
        """The invariant says it all."""

    @rule(
        states=st.dictionaries(names, st.none() | values, max_size=4),
        notes=st.dictionaries(st.tuples(names, numbers), st.none() | numbers, max_size=4),
    )
    def write(self, states: dict[Shelf, Any], notes: dict[tuple[Shelf, int], int | None]) -> None:
        changes = Changes(state=states, notes=[(shelf, number, value) for (shelf, number), value in notes.items()])
        self.engine.write(changes)
        _apply(self.states, states)
        _apply(self.notes, notes)

    @rule(data=st.data())
    def take_away_one_of_each(self, data: st.DataObject) -> None:
        if self.states and self.notes:
            name = data.draw(st.sampled_from(sorted(self.states)))
            note = data.draw(st.sampled_from(sorted(self.notes)))
            self.write(states={name: None}, notes={note: None})

    @invariant()
    def they_are_found_by_name_and_by_its_beginning(self) -> None:
        if not hasattr(self, "states"):
            return
        for name in [("a",), ("a", "ab"), ("b",), ("none",)]:
            expected = [(own, self.states[own]) for own in sorted(self.states) if own[: len(name)] == name]
            assert list(self.engine.states(name)) == expected
            assert self.engine.state(name) == self.states.get(name)
        for shelf in {shelf for shelf, _ in self.notes} | {("a",)}:
            found = list(self.engine.notes(shelf))
            assert found == sorted((number, value) for (own, number), value in self.notes.items() if own == shelf)


def _apply(kept: dict[Any, Any], given: dict[Any, Any]) -> None:
    for key, value in given.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = value


TestStateLives = StateLives.TestCase
TestStateLives.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
