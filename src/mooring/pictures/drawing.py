"""Where everything of a picture is on its sheet. Pure: a picture in, shapes (`shapes.py`) out.

From the top: the title; each panel with the labels of its marks, its groups and its times; the legend; notes;
the listing. What is long is cut or wrapped before it is placed, so the sheet grows downwards only.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.pictures import labels, legend
from mooring.pictures.lettering import MOST, fitting, plain, wrapped
from mooring.pictures.model import Panel, Picture, within
from mooring.pictures.panel import LEFT, RIGHT, WIDTH, PanelDrawing
from mooring.pictures.shapes import Box, Drawing, Shape, Text

MARGIN = 16.0
TITLE, NOTE, LISTED = 19.0, 13.0, 11.5
MOST_NOTES, MOST_LINES, MOST_LISTED = 24, 4, 80


def draw(picture: Picture) -> Drawing:
    """The picture, placed."""
    panels = [within(panel) for panel in picture.panels]
    shapes: list[Shape] = []
    y = MARGIN
    for line in wrapped(plain(picture.title), TITLE * 1.12, WIDTH - 2 * MARGIN, 2):
        shapes.append(Text(MARGIN, y + TITLE, line, TITLE, bold=True))
        y += TITLE * 1.5
    right = min([_right(panel) for panel in panels], default=RIGHT)
    for panel in panels:
        drawn = PanelDrawing(panel, right, y + 8)
        shapes += drawn.shapes
        y = drawn.bottom
    below, y = legend.legend(panels, LEFT, WIDTH - MARGIN, y + 12)
    shapes += below
    more, y = _notes(picture.notes, y + 4)
    listed, y = _listing(picture.listing, y)
    shapes += [*more, *listed]
    whole = y + MARGIN
    paper = Box(0, 0, WIDTH, whole, "paper")
    return Drawing(picture.title, WIDTH, whole, (paper, *shapes))


def _right(panel: Panel) -> float:
    """Where the axes end, so that every label has room."""
    return min(
        RIGHT, labels.right_end(PanelDrawing.labels_of(panel), panel.start, panel.end, LEFT, WIDTH - 12)
    )


def _notes(notes: Sequence[str], y: float) -> tuple[list[Shape], float]:
    shapes: list[Shape] = []
    for note in notes[:MOST_NOTES]:
        for line in wrapped(plain(note), NOTE, WIDTH - LEFT - MARGIN, MOST_LINES):
            shapes.append(Text(LEFT, y + NOTE, line, NOTE))
            y += NOTE * 1.5
        y += 4
    return shapes, y


def _listing(lines: Sequence[str], y: float) -> tuple[list[Shape], float]:
    """The last lines, if there are too many."""
    shapes: list[Shape] = []
    for line in lines[-MOST_LISTED:]:
        shown = fitting(line[:MOST].expandtabs(), LISTED, WIDTH - LEFT - MARGIN, mono=True)
        shapes.append(Text(LEFT, y + LISTED + 4, shown, LISTED, "faint", mono=True))
        y += LISTED * 1.45
    return shapes, y
