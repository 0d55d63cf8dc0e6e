"""Topics and filters of few levels and few names, so that they meet often."""

from __future__ import annotations

from hypothesis import strategies as st

LEVEL = st.sampled_from(["a", "b", "", "$s"])
TOPICS = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def topic_filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.one_of(LEVEL, st.just("+")), max_size=3))
    if draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "#"
