"""Draws what an observer saw: one band of reported and one of true state for each node, over time. Pure: SVG
text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from mooring.cluster.observer import Lane

WIDTH, LEFT, RIGHT, TOP = 1280, 150, 24, 118
BAND, GAP, NODE_GAP, NOTE = 26, 4, 26, 20
FONT = "font-family='ui-sans-serif, system-ui, Helvetica, Arial, sans-serif'"
STYLE = """<style>
.paper{fill:#ffffff}.ink{fill:#111827}.faint{fill:#6b7280}.band{fill:#f3f4f6}
.grid{stroke:#e5e7eb}.line{stroke:#111827}.halo{stroke:#ffffff}.wrong{stroke:#dc2626}.alarm{fill:#dc2626}
@media (prefers-color-scheme: dark){
.paper{fill:#111827}.ink{fill:#f3f4f6}.faint{fill:#9ca3af}.band{fill:#1f2937}
.grid{stroke:#374151}.line{stroke:#d1d5db}.halo{stroke:#111827}.alarm{fill:#f87171}}
</style>"""
"""What is not a state is drawn light or dark, as the viewer likes it."""

FILLS = {
    "attaching": "#bfdbfe",
    "attached": "#60a5fa",
    "attached, in use": "#1d4ed8",
    "mounted": "#15803d",
    "detaching": "#fbbf24",
    "no power": "#374151",
    "no power, attached": "#7f1d1d",
}
LEGEND = (
    ("attaching", "attaching"),
    ("attached", "attached"),
    ("attached, in use", "attached, in use"),
    ("detaching", "detaching"),
    ("mounted", "mounted (true)"),
    ("no power", "no power"),
    ("no power, attached", "no power, still attached"),
)


class Mark(NamedTuple):
    """Something that was done at a time, in seconds; `label` is a few words. `wrong`: what must not be."""

    at: float
    label: str
    wrong: bool = False


class Span(NamedTuple):
    start: float
    end: float
    state: str


def spans(lane: Lane, end: float) -> Iterator[Span]:
    """A lane's states with their beginnings and ends; nothing for the empty state."""
    ends = [change.at for change in lane.changes[1:]] + [end]
    for change, until in zip(lane.changes, ends, strict=False):
        if change.state and until > change.at:
            yield Span(change.at, until, change.state)


def render(
    lanes: Sequence[Lane], marks: Sequence[Mark], end: float, title: str, notes: Sequence[str] = ()
) -> str:
    """The whole picture; `notes` are lines below it."""
    nodes = sorted({lane.node for lane in lanes})
    rows = {node: TOP + index * (2 * BAND + GAP + NODE_GAP) for index, node in enumerate(nodes)}
    bottom = TOP + len(nodes) * (2 * BAND + GAP + NODE_GAP)
    height = bottom + 92 + NOTE * len(notes)
    scale = (WIDTH - LEFT - RIGHT) / max(end, 1e-9)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {FONT}>",
        STYLE,
        "<defs><pattern id='silent' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
        "<rect width='2' height='6' fill='#dc2626' fill-opacity='.75'/></pattern></defs>",
        f"<rect width='{WIDTH}' height='{height}' class='paper'/>",
        f"<text x='{LEFT}' y='30' font-size='19' font-weight='600' class='ink'>{escape(title)}</text>",
        *_axis(end, scale, bottom),
        *_marks(marks, scale, bottom),
        *(part for lane in lanes for part in _lane(lane, rows[lane.node], end, scale)),
        *(part for node in nodes for part in _names(node, rows[node])),
        *_legend(bottom + 52),
        *_notes(notes, bottom + 84),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lane(lane: Lane, top: int, end: float, scale: float) -> Iterator[str]:
    y = top if lane.kind == "reported" else top + BAND + GAP
    yield f"<rect x='{LEFT}' y='{y}' width='{end * scale:.1f}' height='{BAND}' class='band'/>"
    for span in spans(lane, end):
        state, _, silent = span.state.partition("; ")
        if state == "node silent":
            state, silent = "", "node silent"
        x, width = LEFT + span.start * scale, max((span.end - span.start) * scale, 1.0)
        box = f"x='{x:.1f}' y='{y}' width='{width:.1f}' height='{BAND}'"
        hint = (
            f"<title>{escape(lane.node)} {lane.kind}: {escape(span.state)}, {span.start:.2f}-{span.end:.2f} "
            f"s</title>"
        )
        if state:
            yield f"<rect {box} fill='{FILLS[state]}'>{hint}</rect>"
        if silent:
            yield f"<rect {box} fill='url(#silent)'>{hint}</rect>"


def _names(node: str, top: int) -> Iterator[str]:
    middle = top + BAND + GAP // 2
    yield f"<text x='16' y='{middle + 5}' font-size='15' font-weight='600' class='ink'>{escape(node)}</text>"
    for kind, y in (("reported", top), ("true", top + BAND + GAP)):
        place = f"x='{LEFT - 10}' y='{y + 17}' text-anchor='end'"
        yield f"<text {place} font-size='11' class='faint'>{kind}</text>"


def _axis(end: float, scale: float, bottom: int) -> Iterator[str]:
    step = next(s for s in (1, 2, 5, 10, 20, 60, 120, 600, 3600) if end / s <= 16)
    for second in range(0, int(end) + 1, step):
        x = LEFT + second * scale
        yield f"<line x1='{x:.1f}' y1='{TOP - 8}' x2='{x:.1f}' y2='{bottom - 14}' class='grid'/>"
        yield (
            f"<text x='{x:.1f}' y='{bottom + 4}' font-size='11' class='faint' text-anchor='middle'>{second} "
            f"s</text>"
        )


def _marks(marks: Sequence[Mark], scale: float, bottom: int) -> Iterator[str]:
    """Labels on up to four levels, each as low as the labels before it allow; the lines lie behind them.
    Where there is no room for a label, pointing at the line shows it."""
    halo = "stroke-width='4' paint-order='stroke'"
    ends = [0.0] * 4
    labels: list[str] = []
    for mark in sorted(marks):
        x = LEFT + mark.at * scale
        level = next((i for i, taken in enumerate(ends) if x > taken), None)
        y = TOP - 14 - (level or 0) * 15
        line = f"x1='{x:.1f}' y1='{y - 9}' x2='{x:.1f}' y2='{bottom - 14}'"
        look = "class='wrong' stroke-width='2'" if mark.wrong else "class='line' stroke-dasharray='2 3'"
        yield f"<line {line} {look}><title>{escape(mark.label)}</title></line>"
        if level is not None:
            ends[level] = x + 6.8 * len(mark.label) + 12
            place = f"x='{x + 4:.1f}' y='{y}'"
            ink = "alarm" if mark.wrong else "ink"
            labels.append(
                f"<text {place} font-size='11.5' class='{ink} halo' {halo}>{escape(mark.label)}</text>"
            )
    yield from labels


def _notes(notes: Sequence[str], y: int) -> Iterator[str]:
    for number, note in enumerate(notes):
        yield f"<text x='{LEFT}' y='{y + NOTE * number}' font-size='13' class='ink'>{escape(note)}</text>"


def _legend(y: int) -> Iterator[str]:
    x = LEFT
    for state, label in LEGEND:
        yield f"<rect x='{x}' y='{y - 11}' width='14' height='14' fill='{FILLS[state]}'/>"
        yield f"<text x='{x + 19}' y='{y}' font-size='12' class='ink'>{label}</text>"
        x += 36 + int(6.6 * len(label))
    yield f"<rect x='{x}' y='{y - 11}' width='14' height='14' fill='url(#silent)' stroke='#dc2626'/>"
    yield f"<text x='{x + 19}' y='{y}' font-size='12' class='ink'>node does not answer</text>"
