"""What a picture shows: plain values, times in seconds.

A picture has panels, each with an axis of its own. A panel has groups (a volume, say) of rows (a node), a row
has lanes (reported, true), a lane has bands: how it was, from when to when. Over them lie lines (a pod, where
it ran), shades (a moment that matters to a whole group) and marks (what was done).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mooring.pictures.looks import Look


@dataclass(frozen=True)
class Band:
    """A lane's state from `start` to `end`. `look` None: nothing is drawn but `silent`: who was asked did not
    answer."""

    start: float
    end: float
    look: Look | None
    silent: bool = False


@dataclass(frozen=True)
class Loss:
    """Something was lost at a moment, which must not look like nothing."""

    at: float
    words: str


@dataclass(frozen=True)
class Lane:
    name: str
    bands: Sequence[Band] = ()
    losses: Sequence[Loss] = ()


@dataclass(frozen=True)
class Row:
    name: str
    lanes: Sequence[Lane]


@dataclass(frozen=True)
class Stretch:
    """Of a line: `words` are written on it where they have room. `away`: it is missed."""

    start: float
    end: float
    words: str
    away: bool = False


@dataclass(frozen=True)
class Line:
    name: str
    stretches: Sequence[Stretch]


@dataclass(frozen=True)
class Shade:
    """A stretch of time that matters to the whole group; `words` say why. `wrong`: what must not be."""

    start: float
    end: float
    words: str
    wrong: bool = False


@dataclass(frozen=True)
class Group:
    name: str
    rows: Sequence[Row] = ()
    lines: Sequence[Line] = ()
    shades: Sequence[Shade] = ()


@dataclass(frozen=True)
class Mark:
    """Something was done at a moment; `label` is a few words. `wrong`: what must not be."""

    at: float
    label: str
    wrong: bool = False


@dataclass(frozen=True)
class Panel:
    """Everything from `start` to `end`; `title` and `notes` (sentences, beneath) may be empty."""

    groups: Sequence[Group]
    end: float
    start: float = 0.0
    marks: Sequence[Mark] = ()
    title: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """`notes` are sentences below all panels, `listing` lines below these, as they are."""

    title: str
    panels: Sequence[Panel]
    notes: Sequence[str] = ()
    listing: Sequence[str] = ()


def within(panel: Panel) -> Panel:
    """The panel with what lies between its start and its end, and with no row or group that has nothing."""
    start, end = panel.start, panel.end
    groups = [_group(group, start, end) for group in panel.groups]
    return replace(
        panel,
        groups=[group for group in groups if group.rows or group.lines],
        marks=sorted((m for m in panel.marks if start <= m.at <= end), key=lambda mark: mark.at),
    )


def _group(group: Group, start: float, end: float) -> Group:
    rows = [replace(row, lanes=[_lane(lane, start, end) for lane in row.lanes]) for row in group.rows]
    lines = [replace(line, stretches=_cut(line.stretches, start, end)) for line in group.lines]
    return replace(
        group,
        rows=[row for row in rows if any(lane.bands or lane.losses for lane in row.lanes)],
        lines=[line for line in lines if line.stretches],
        shades=_cut(group.shades, start, end),
    )


def _lane(lane: Lane, start: float, end: float) -> Lane:
    shown = (band for band in lane.bands if band.look is not None or band.silent)
    losses = [loss for loss in lane.losses if start <= loss.at <= end]
    return replace(lane, bands=_cut(shown, start, end), losses=losses)


Spanned = TypeVar("Spanned", Band, Stretch, Shade)


def _cut(spans: Iterable[Spanned], start: float, end: float) -> list[Spanned]:
    cut = (replace(span, start=max(span.start, start), end=min(span.end, end)) for span in spans)
    return [span for span in cut if span.end > span.start]
