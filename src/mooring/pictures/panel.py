"""Where everything of one panel is: the labels of its marks, its groups, its times. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.pictures.axis import SIZE as TIME
from mooring.pictures.axis import Axis
from mooring.pictures.labels import INDENT, LEADING, Label, label, stairs
from mooring.pictures.labels import SIZE as LABEL
from mooring.pictures.legend import cross, frame, ground
from mooring.pictures.lettering import fitting, plain, width, wrapped
from mooring.pictures.looks import LEGEND, LOOKS, SILENT
from mooring.pictures.model import Band, Group, Lane, Line, Mark, Panel, Row
from mooring.pictures.shapes import Box, Place, Shape, Stroke, Text

WIDTH, LEFT, RIGHT, MARGIN = 1280.0, 206.0, 1256.0, 16.0
BAND, LANE_GAP, ROW_GAP, HEADING, LINE = 20.0, 3.0, 10.0, 22.0, 22.0
KIND, NAME, GROUP, PANEL, NOTE, ON_LINE = 11.0, 12.5, 13.0, 15.0, 12.5, 10.5
KIND_ROOM = 64.0
"""For the names of lanes, left of them."""
MARK_ROOM, SHADE_ROOM, SHADE_LINES = 290.0, 340.0, 3
MOST_MARKS, MOST_SHADES = 48, 8
"""Of a panel, and of a group, so many have labels, what is wrong before all others; the others are shown
without."""


class PanelDrawing:
    """The shapes of a panel, from `top` down to `bottom`; its axis ends at `right`. What it is given is
    `within` its times."""

    def __init__(self, panel: Panel, right: float, top: float) -> None:
        self._axis = Axis(panel.start, panel.end, LEFT, right)
        self._y = top
        self._behind: list[Shape] = []
        self._ground: list[Shape] = []
        self._bands: list[Shape] = []
        self._frames: list[Shape] = []
        self._texts: list[Shape] = []
        self._title(panel)
        marks = _labels_of_marks(panel.marks)
        places = [(self._axis.x(each.at), each) for each in marks]
        offsets = stairs(places)
        self._y += max((o + each.height for o, (_, each) in zip(offsets, places, strict=True)), default=0.0)
        base = self._y + 4
        for (x, each), offset in zip(places, offsets, strict=True):
            self._label(x, each, base - offset - each.height)
        self._y = base + 4
        for group in panel.groups:
            self._group(group)
        self._lines_of_marks(panel.marks, base, dict(zip(marks, offsets, strict=True)))
        self._times(base)
        if (more := len(panel.marks) - MOST_MARKS) > 0:
            self._note(f"The labels of {more} more lines are left out.")
        for note in panel.notes:
            self._note(note)

    @property
    def shapes(self) -> list[Shape]:
        """The lowest first."""
        return [*self._behind, *self._ground, *self._bands, *self._frames, *self._texts]

    @property
    def bottom(self) -> float:
        return self._y

    @staticmethod
    def labels_of(panel: Panel) -> list[Label]:
        """All labels that lie along the axis: it must leave them room."""
        below = [each for group in panel.groups for each in _labels_below(group)]
        return [*_labels_of_marks(panel.marks), *below]

    def _title(self, panel: Panel) -> None:
        if panel.title:
            for line in wrapped(plain(panel.title), PANEL * 1.12, WIDTH - 2 * MARGIN, 2):
                self._texts.append(Text(MARGIN, self._y + PANEL + 8, line, PANEL, bold=True))
                self._y += PANEL * 1.4
            self._y += 14

    def _label(self, x: float, each: Label, top: float) -> None:
        for number, line in enumerate(each.lines):
            y = top + LEADING * number + LABEL
            hint = each.hint if each.is_cut else ""
            self._texts.append(Text(x + INDENT, y, line, LABEL, each.paint, backed=True, hint=hint))

    # --- groups

    def _group(self, group: Group) -> None:
        name = plain(group.name)
        if name:
            shown = fitting(name, GROUP, LEFT - MARGIN - 8, bold=True)
            self._texts.append(Text(MARGIN, self._y + 15, shown, GROUP, bold=True, hint=_cut(name, shown)))
            self._y += HEADING
        for line in group.lines:
            self._line(line)
        top = self._y
        for row in group.rows:
            self._row(row, name)
        bottom = self._y - (ROW_GAP if group.rows else 0)
        for shade in group.shades:
            place = Place(self._axis.x(shade.start), top - 3, self._axis.x(shade.end), bottom + 3)
            self._ground.append(ground(place, wrong=shade.wrong, hint=shade.words))
            self._frames += frame(place, wrong=shade.wrong, hint=shade.words)
        self._below(group, bottom + 4)
        self._y += 6

    def _line(self, line: Line) -> None:
        y = self._y + LINE - 6
        self._kind(line.name, y + 2, LEFT - MARGIN - 10)
        written = LEFT
        for each in line.stretches:
            x1, x2 = self._axis.x(each.start), self._axis.x(each.end)
            paint, wide, dashes = ("alarm", 2.0, "3 3") if each.away else ("runs", 4.0, "")
            hint = f"{line.name}: {each.words}, {_span(each.start, each.end)}"
            self._bands.append(Stroke(x1, y, x2, y, paint, wide, dashes, hint))
            words = plain(each.words)
            if words and written <= x1 and width(words, ON_LINE) <= x2 - x1 - 4:
                ink = "alarm" if each.away else "runs"
                self._texts.append(Text(x1 + 2, y - 5, words, ON_LINE, ink, backed=True, hint=hint))
                written = self._texts[-1].place.right
        self._y += LINE + 4

    def _row(self, row: Row, group: str) -> None:
        top = self._y
        for lane in row.lanes:
            self._lane(lane, self._y, f"{group} {row.name}".strip())
            self._kind(lane.name, self._y + 14, KIND_ROOM)
            self._y += BAND + LANE_GAP
        self._y += ROW_GAP - LANE_GAP
        middle = (top + self._y - ROW_GAP) / 2
        name = plain(row.name)
        shown = fitting(name, NAME, LEFT - MARGIN - KIND_ROOM - 22)
        self._texts.append(Text(MARGIN, middle + 4, shown, NAME, hint=_cut(name, shown)))

    def _kind(self, name: str, y: float, room: float) -> None:
        name = plain(name)
        shown = fitting(name, KIND, room)
        self._texts.append(Text(LEFT - 10, y, shown, KIND, "faint", to_left=True, hint=_cut(name, shown)))

    def _lane(self, lane: Lane, y: float, whose: str) -> None:
        self._behind.append(Box(LEFT, y, self._axis.right - LEFT, BAND, "empty"))
        for band in lane.bands:
            x = self._axis.x(band.start)
            wide = max(self._axis.x(band.end) - x, 1.0)
            hint = f"{whose}, {lane.name}: {_words(band)}, {_span(band.start, band.end)}"
            paints = [
                *([LOOKS[band.look]] if band.look is not None else []),
                *([SILENT] if band.silent else []),
            ]
            self._bands += (Box(x, y, wide, BAND, paint, hint=hint) for paint in paints)
        for loss in lane.losses:
            self._frames += cross(self._axis.x(loss.at), y + BAND / 2, loss.words)

    def _below(self, group: Group, top: float) -> None:
        """The words of shades and losses, each beneath its beginning."""
        places = [(self._axis.x(each.at), each) for each in _labels_below(group)]
        offsets = stairs(places)
        for (x, each), offset in zip(places, offsets, strict=True):
            self._bands.append(Stroke(x, top, x, top + offset + each.height, each.paint))
            self._label(x, each, top + offset + 1)
            self._y = max(self._y, top + offset + each.height + ROW_GAP / 2)

    # --- what goes through all groups

    def _lines_of_marks(self, marks: Sequence[Mark], base: float, offsets: dict[Label, float]) -> None:
        tops = {(each.at, each.hint): base - offset - each.height for each, offset in offsets.items()}
        for mark in marks:
            x, top = self._axis.x(mark.at), tops.get((mark.at, mark.label), base)
            if mark.wrong:
                self._frames.append(Stroke(x, top, x, self._y, "alarm", 2.0, hint=mark.label))
            else:
                self._behind.insert(0, Stroke(x, top, x, self._y, "done", 1.0, "2 3", mark.label))

    def _times(self, base: float) -> None:
        edge = MARGIN
        for x, words in self._axis.ticks():
            self._behind.insert(0, Stroke(x, base, x, self._y, "grid"))
            text = Text(x, self._y + 14, words, TIME, "faint", middle=True)
            if text.place.left > edge and text.place.right < WIDTH - 4:
                self._texts.append(text)
                edge = text.place.right + 4
        self._y += 22

    def _note(self, note: str) -> None:
        for line in wrapped(plain(note), NOTE, WIDTH - LEFT - MARGIN, 4):
            self._texts.append(Text(LEFT, self._y + NOTE + 2, line, NOTE, "faint"))
            self._y += NOTE * 1.45


def _labels_of_marks(marks: Sequence[Mark]) -> list[Label]:
    chosen = sorted(marks, key=lambda mark: (not mark.wrong, mark.at))[:MOST_MARKS]
    shown = [
        label(mark.at, plain(mark.label), "alarm" if mark.wrong else "ink", MARK_ROOM, 2) for mark in chosen
    ]
    return sorted((each for each in shown if each.lines), key=lambda each: each.at)


def _labels_below(group: Group) -> list[Label]:
    """Of the shades that are longest, and of what was lost."""
    losses = [loss for row in group.rows for lane in row.lanes for loss in lane.losses]
    chosen = sorted(group.shades, key=lambda shade: (not shade.wrong, shade.start - shade.end))[:MOST_SHADES]
    shown = [
        *(
            label(s.start, plain(s.words), "alarm" if s.wrong else "wait-ink", SHADE_ROOM, SHADE_LINES)
            for s in chosen
        ),
        *(
            label(loss.at, f"lost: {plain(loss.words)}", "alarm", SHADE_ROOM, 2)
            for loss in losses[:MOST_SHADES]
        ),
    ]
    return sorted((each for each in shown if each.lines), key=lambda each: each.at)


def _cut(whole: str, shown: str) -> str:
    """The whole text, if not all of it is shown."""
    return "" if whole == shown else whole


def _words(band: Band) -> str:
    state = LEGEND[band.look] if band.look is not None else "nothing"
    return f"{state}, node does not answer" if band.silent else state


def _span(start: float, end: float) -> str:
    return f"{start:.2f} to {end:.2f} s"
