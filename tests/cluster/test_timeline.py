"""The picture shows what the lanes hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.observer import Change, Lane
from mooring.cluster.timeline import FILLS, Mark, Span, render, spans


def lane(*changes: tuple[float, str]) -> Lane:
    return Lane("node-1", "true", [Change(at, state) for at, state in changes])


def test_a_state_lasts_until_the_next_change_or_the_end() -> None:
    held = lane((1, "attached"), (2, "mounted"), (5, ""))
    assert list(spans(held, 9)) == [Span(1, 2, "attached"), Span(2, 5, "mounted")]
    assert list(spans(lane((1, "mounted")), 9)) == [Span(1, 9, "mounted")]


def test_a_lane_in_which_nothing_happened_has_no_spans() -> None:
    assert list(spans(lane(), 9)) == []


def test_noting_the_same_state_again_is_no_change() -> None:
    held = lane()
    for at, state in ((0, ""), (1, "attached"), (2, "attached"), (3, "")):
        held.note(at, state)
    assert held.changes == [Change(1, "attached"), Change(3, "")]


states = st.sampled_from(["", *FILLS, "attached; node silent", "node silent"])
changes = st.lists(st.tuples(st.floats(0, 100), states), max_size=20).map(sorted)


@given(changes, st.lists(st.builds(Mark, st.floats(0, 100), st.text(max_size=20)), max_size=8))
def test_every_picture_is_well_formed(given_changes: list[tuple[float, str]], marks: list[Mark]) -> None:
    text = "".join(
        c
        for c in render([lane(*given_changes)], marks, 100, "a <title> & more")
        if c.isprintable() or c == "\n"
    )
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")


def test_the_picture_names_each_node_and_colours_each_state() -> None:
    text = render([lane((1, "mounted"))], [Mark(2, "drain")], 10, "t")
    assert ">node-1<" in text
    assert FILLS["mounted"] in text
    assert ">drain<" in text
    assert "node-1 true: mounted, 1.00-10.00 s" in text
