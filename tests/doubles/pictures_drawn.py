"""Pictures of any kind, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from mooring.pictures.looks import Look
from mooring.pictures.model import Band, Group, Lane, Line, Loss, Mark, Panel, Picture, Row, Shade, Stretch

moments = st.one_of(st.floats(0, 100), st.floats(0, 0.5), st.sampled_from([0.0, 50.0, 100.0]))
words = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["", "node-2 loses power", "W" * 300, "<script>", "a " * 200, "\u202eevil\x00\ud800", "ＷＩＤＥ" * 20]
    ),
)
_spans = st.tuples(moments, moments).map(sorted)


def _made(kind: type, *more: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(_spans, *more).map(lambda drawn: kind(*drawn[0], *drawn[1:]))


bands = _made(Band, st.sampled_from([None, *Look]), st.booleans())
lanes = st.builds(
    Lane, words, st.lists(bands, max_size=5), st.lists(st.builds(Loss, moments, words), max_size=3)
)
rows = st.builds(Row, words, st.lists(lanes, min_size=1, max_size=2))
lines = st.builds(Line, words, st.lists(_made(Stretch, words, st.booleans()), max_size=4))
groups = st.builds(
    Group,
    words,
    st.lists(rows, max_size=3),
    st.lists(lines, max_size=2),
    st.lists(_made(Shade, words, st.booleans()), max_size=4),
)
marks = st.builds(Mark, moments, words, st.booleans())
panels = st.builds(
    Panel,
    st.lists(groups, max_size=3),
    st.floats(0.001, 1e6),
    st.sampled_from([0.0, 0.0005]),
    st.lists(marks, max_size=14),
    words,
    st.lists(words, max_size=2),
)
pictures = st.builds(
    Picture, words, st.lists(panels, max_size=2), st.lists(words, max_size=3), st.lists(words, max_size=3)
)
