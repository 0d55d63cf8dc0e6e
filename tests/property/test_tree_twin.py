"""The topic tree finds what matching filter by filter finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.broker.tree import TopicTree
from bridgehead.wire.topicnames import matches, valid_filter

level = st.sampled_from(["a", "b", "", "$x", "é"])
topic = st.lists(level, min_size=1, max_size=4).map("/".join).filter(bool)
topic_filter = (
    st.lists(level | st.just("+"), min_size=0, max_size=3)
    .flatmap(lambda levels: st.sampled_from([[*levels, "#"], levels or ["a"]]))
    .map("/".join)
    .filter(lambda one: valid_filter(one))
)
change = st.tuples(st.booleans(), topic_filter, st.sampled_from(["one", "two", "three"]))


@settings(max_examples=300, deadline=None)
@given(st.lists(change, max_size=20), st.lists(topic, min_size=1, max_size=6))
def test_the_tree_finds_what_matching_each_filter_finds(changes: list[tuple[bool, str, str]], topics: list[str]) -> None:
    tree: TopicTree[tuple[str, str]] = TopicTree()
    model: set[tuple[str, str]] = set()
    for put, filter_, name in changes:
        if put:
            assert tree.put(filter_, name, (filter_, name)) == ((filter_, name) not in model)
            model.add((filter_, name))
        else:
            assert tree.remove(filter_, name) == ((filter_, name) in model)
            model.discard((filter_, name))
    for each in topics:
        found = [entry for _, entry in tree.match(each)]
        assert len(found) == len(set(found)), "no filter comes twice"
        assert set(found) == {(filter_, name) for filter_, name in model if matches(filter_, each)}
    for filter_, name in model:
        tree.remove(filter_, name)
    assert not tree._root.children, "what is not subscribed to leaves nothing behind"
