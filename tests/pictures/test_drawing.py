"""Where things are: no two texts meet, nothing lies outside, nothing empty takes a row."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from pictures_drawn import pictures

from mooring.pictures.drawing import draw
from mooring.pictures.looks import Look
from mooring.pictures.model import Band, Group, Lane, Line, Loss, Mark, Panel, Picture, Row, Shade, Stretch
from mooring.pictures.panel import MOST_MARKS
from mooring.pictures.shapes import Box, Stroke, Text

HELD = Band(1, 5, Look.MOUNTED)


def row(name: str, *bands: Band) -> Row:
    return Row(name, [Lane("reported"), Lane("true", bands)])


def picture(*groups: Group, marks: list[Mark] | None = None, end: float = 10, start: float = 0) -> Picture:
    return Picture("title", [Panel(groups, end, start, marks or [])])


def texts(drawn: Picture) -> list[Text]:
    return [shape for shape in draw(drawn).shapes if isinstance(shape, Text)]


def said(drawn: Picture) -> list[str]:
    return [text.text for text in texts(drawn)]


def place_of(drawn: Picture, words: str) -> Text:
    return next(text for text in texts(drawn) if text.text.startswith(words))


@settings(max_examples=150, deadline=None)
@given(pictures)
def test_no_two_texts_overlap_and_nothing_is_outside(drawn: Picture):
    drawing = draw(drawn)
    found = [(shape.place, shape) for shape in drawing.shapes if isinstance(shape, Text)]
    for (here, one), (there, other) in combinations(found, 2):
        assert not here.overlaps(there), (one, other)
    for shape in drawing.shapes:
        left, top, right, bottom = shape.place
        assert left >= 0, shape
        assert top >= 0, shape
        assert right <= drawing.width + 0.01, shape
        assert bottom <= drawing.height, shape


@settings(max_examples=100, deadline=None)
@given(pictures)
def test_no_line_of_a_mark_passes_a_label_of_another_mark(drawn: Picture):
    for panel in drawn.panels:
        only = Picture("", [Panel([], panel.end, panel.start, panel.marks)])
        shapes = draw(only).shapes
        lines = [s for s in shapes if isinstance(s, Stroke) and s.paint in ("done", "alarm")]
        labels = [s for s in shapes if isinstance(s, Text) and s.backed]
        assert not [(at, label) for at in lines for label in labels if at.place.overlaps(label.place)]


def test_events_of_one_moment_are_written_above_one_another():
    marks = [Mark(0.01 * number, f"event {number}") for number in range(6)]
    heights = [place_of(picture(marks=marks), f"event {number}").y for number in range(6)]
    assert heights == sorted(heights)
    assert len(set(heights)) == 6


def test_a_label_at_the_end_of_the_axis_has_room():
    last = place_of(picture(marks=[Mark(10, "the very last thing that was done")]), "the very last")
    assert last.place.right <= draw(picture()).width


def test_a_row_in_which_nothing_happened_is_not_drawn():
    drawn = picture(Group("disk", [row("node-1", HELD), row("node-3")]))
    assert "node-1" in said(drawn)
    assert "node-3" not in said(drawn)


def test_a_group_without_rows_and_lines_is_not_drawn():
    assert "idle" not in said(picture(Group("idle", [row("node-1")])))


def test_what_lies_outside_of_the_times_of_a_panel_is_not_drawn():
    drawn = picture(
        Group("disk", [row("node-1", HELD), row("node-2", Band(7, 9, Look.ATTACHED))]),
        marks=[Mark(2, "before"), Mark(8, "within")],
        start=6,
    )
    assert {"node-2", "within"} <= {*said(drawn)}
    assert not {"node-1", "before"} & {*said(drawn)}


def test_what_is_reported_is_above_what_is_true():
    drawn = picture(Group("disk", [row("node-1", HELD)]))
    assert place_of(drawn, "reported").y < place_of(drawn, "true").y


def test_the_words_of_a_shade_stand_where_it_begins():
    shade = Shade(4, 6, "two nodes could have written: waited, because node-1 is silent")
    drawn = picture(Group("disk", [row("node-1", HELD)], shades=[shade]))
    frame = next(s for s in draw(drawn).shapes if isinstance(s, Stroke) and s.paint == "wait")
    assert abs(place_of(drawn, "two nodes could have").x - frame.x1) < 10


def test_what_must_not_be_is_red_and_what_was_waited_for_is_not():
    shades = [Shade(1, 2, "both write", wrong=True), Shade(4, 5, "waited")]
    drawn = picture(Group("disk", [row("node-1", HELD)], shades=shades))
    assert place_of(drawn, "both write").paint == "alarm"
    assert place_of(drawn, "waited").paint == "wait-ink"


def test_a_shade_leaves_the_bands_their_colours():
    drawn = picture(Group("disk", [row("node-1", HELD)], shades=[Shade(2, 3, "both", wrong=True)]))
    boxes = [shape.paint for shape in draw(drawn).shapes if isinstance(shape, Box)]
    assert boxes.index("alarm") < boxes.index("mounted")


def test_what_was_lost_is_crossed_out_and_said():
    lost = Row("node-1", [Lane("reported"), Lane("true", [HELD], [Loss(3, "13 bytes")])])
    drawn = picture(Group("disk", [lost]))
    assert "lost: 13 bytes" in said(drawn)
    assert any(isinstance(s, Stroke) and s.hint == "13 bytes" for s in draw(drawn).shapes)


def test_a_pod_is_a_line_whose_gap_says_how_long_it_was_away():
    line = Line("pod db-0", [Stretch(0, 4, "on node-1"), Stretch(4, 8, "away 4.0 s", away=True)])
    drawn = picture(Group("disk", [row("node-1", HELD)], [line]))
    assert {"pod db-0", "on node-1", "away 4.0 s", "pod is away"} <= {*said(drawn)}


def test_words_without_room_on_a_line_are_left_to_the_pointer():
    drawn = picture(Group("disk", [], [Line("pod", [Stretch(1, 1.01, "on node-1")])]))
    assert "on node-1" not in said(drawn)
    assert any("on node-1" in shape.hint for shape in draw(drawn).shapes if isinstance(shape, Stroke))


def test_words_of_stretches_that_overlap_do_not_meet():
    twice = Line(
        "pod", [Stretch(0, 9, "on node-1"), Stretch(0.5, 9, "on node-2"), Stretch(4, 9, "on node-3")]
    )
    assert "on node-2" not in said(picture(Group("disk", [], [twice])))
    assert {"on node-1", "on node-3"} <= {*said(picture(Group("disk", [], [twice])))}


@pytest.mark.parametrize("there", list(Look))
def test_the_legend_names_what_is_there_and_nothing_else(there: Look):
    legends = said(picture(Group("", [row("node-1", Band(1, 2, there))])))
    others = [look.value for look in Look if look is not there and look.value in legends]
    assert not others
    assert any(words.startswith(there.value.partition(",")[0]) for words in legends)


def test_labels_that_are_left_out_are_counted():
    marks = [Mark(number / 100, f"event {number}") for number in range(MOST_MARKS + 3)]
    assert "The labels of 3 more lines are left out." in said(picture(marks=marks))


def test_what_is_wrong_keeps_its_label_among_many():
    marks = [Mark(number / 100, "event") for number in range(MOST_MARKS + 3)]
    assert "S7 is violated" in said(picture(marks=[*marks, Mark(9, "S7 is violated", wrong=True)]))
