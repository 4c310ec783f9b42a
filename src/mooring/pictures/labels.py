"""Labels at moments, none of which meets another or another's line. Pure.

A label begins at its moment and reaches to the right. From the right to the left, each lies beyond all that
it would reach over: so those of one moment make a staircase, whose lines pass no label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.pictures.lettering import width, wrapped

SIZE, LEADING, INDENT = 11.5, 16.0, 5.0
_APART = 10.0


@dataclass(frozen=True)
class Label:
    """Some lines of text. `hint` has them whole."""

    at: float
    lines: tuple[str, ...]
    paint: str
    hint: str

    @property
    def width(self) -> float:
        return max((width(line, SIZE) for line in self.lines), default=0.0)

    @property
    def is_cut(self) -> bool:
        return " ".join(self.lines) != self.hint

    @property
    def height(self) -> float:
        return LEADING * len(self.lines)


def label(at: float, words: str, paint: str, room: float, most: int) -> Label:
    """A label of at most so many lines, each of which fits into the room."""
    return Label(at, tuple(wrapped(words, SIZE, room, most)), paint, words)


def right_end(labels: Sequence[Label], start: float, end: float, left: float, edge: float) -> float:
    """Where an axis that begins at `left` must end at the latest, so that no label reaches over the edge."""
    rights = [edge]
    for each in labels:
        share = (each.at - start) / max(end - start, 1e-9)
        if share > 0:
            rights.append(left + (edge - INDENT - each.width - left) / share)
    return min(rights)


def stairs(places: Sequence[tuple[float, Label]]) -> list[float]:
    """How far from the base each label lies; places are in order from the left."""
    offsets = [0.0] * len(places)
    for index in reversed(range(len(places))):
        x, own = places[index]
        reach = x + INDENT + own.width + _APART
        for later in range(index + 1, len(places)):
            if places[later][0] >= reach:
                break
            offsets[index] = max(offsets[index], offsets[later] + places[later][1].height)
    return offsets
